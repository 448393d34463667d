# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest of tools/rxe-guest, whose kernel has the bonding driver: sh perf_bond_guest.sh WITH-SOFTHCA LIBRARY SPINWIRE-PERF
# Two network namespaces, a and b, joined by three cables: r for the rail, p and q for the bond. Prints spinwire-perf's tables and, on a line
# of its own, its JSON.
with="sh $1 --cable shm:bond --accept all"
export SPW_SOFTHCA_LIB="$2"
perf=$3
ip=/bin/ip # the shell would take its own, which has no namespaces
set -e
modprobe veth
modprobe bonding
mkdir -p /run /var
ln -sf /run /var/run # ip keeps its namespaces in one of the two
$ip netns add a
$ip netns add b
for cable in r p q; do
	$ip link add ${cable}0 netns a type veth peer name ${cable}1 netns b
done

end() { # NAMESPACE NUMBER
	$ip -n "$1" link set lo up
	$ip -n "$1" addr add "10.77.0.$(($2 + 1))/24" dev "r$2"
	$ip -n "$1" link set "r$2" up
	$ip -n "$1" link add bond type bond mode balance-rr
	$ip -n "$1" link set "p$2" master bond
	$ip -n "$1" link set "q$2" master bond
	$ip -n "$1" addr add "10.79.0.$(($2 + 1))/24" dev bond
	$ip -n "$1" link set bond up
}

in_end() { # NAMESPACE NUMBER WORDS...: spinwire-perf there, with its own software ConnectX
	namespace=$1 number=$2
	shift 2
	timeout 200 $ip netns exec "$namespace" $with --netdev "r$number" --ip "10.77.0.$((number + 1))" "$perf" "$@"
}

wait_for() { # SECONDS COMMAND...
	n=$(($1 * 10))
	shift
	until "$@"; do
		n=$((n - 1))
		[ $n -gt 0 ]
		sleep 0.1
	done
}

bond_is_up() {
	[ "$($ip netns exec a cat /sys/class/net/bond/carrier)$($ip netns exec b cat /sys/class/net/bond/carrier)" = 11 ]
}

end a 0
end b 1
wait_for 60 bond_is_up
in_end b 1 serve --once > /tmp/server 2>&1 &
wait_for 60 grep -q "serves on port" /tmp/server
set +e
in_end a 0 10.77.0.2 --full --rows write,tcp,bond --sizes 64,64K --time 400ms --json /tmp/json
status=$?
cat /tmp/server
for cable in p q; do
	echo "CARRIED ${cable}0 $($ip netns exec a cat /sys/class/net/${cable}0/statistics/tx_bytes)"
done
echo "JSON $(tr -d '\n' < /tmp/json)"
exit $status
