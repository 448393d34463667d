# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest of tools/rxe-guest, where rxe0 is the kernel's own RDMA device: sh beside_guest.sh WITH-SOFTHCA LIBRARY
# Each phase says "PHASE name ok" or what went wrong, and the status is 1 if one did.
with="sh $1"
export SPW_SOFTHCA_LIB="$2"
bad=0

phase() { # NAME STATUS
	if [ "$2" = 0 ]; then echo "PHASE $1 ok"; else echo "PHASE $1 FAILED ($2)"; bad=1; fi
}

listens() { # PORT
	n=0
	until grep -qi ": [0-9A-F]*:$(printf %04X "$1") [0-9A-F:]* 0A " /proc/net/tcp /proc/net/tcp6; do
		n=$((n + 1))
		[ $n -lt 600 ] || return 1
		sleep 0.1
	done
}

pair() { # PORT PROGRAM...: both ends in the guest
	port=$1
	shift
	timeout 120 "$@" -p "$port" > "/tmp/server.$port" 2>&1 &
	server=$!
	listens "$port" && timeout 120 "$@" -p "$port" 127.0.0.1 > "/tmp/client.$port" 2>&1
	status=$?
	wait $server || status=1
	cat "/tmp/server.$port" "/tmp/client.$port"
	grep -q usec/iter "/tmp/client.$port" && return $status
}

real_state() {
	for f in /sys/class/infiniband/rxe0/ports/1/*counters/* /sys/class/infiniband/rxe0/ports/1/state; do
		echo "$f $(cat "$f" 2>&1)"
	done
	rdma res show 2>&1
	ls -l /dev/infiniband /sys/class/infiniband /sys/class/infiniband_verbs
}

# Nothing of ours is there without the library.
ibv_devinfo > /tmp/plain 2>&1
grep -q 'hca_id:.*rxe0' /tmp/plain && ! grep -q mlx5 /tmp/plain
phase plain $?

# What the emulated device does leaves the real one as it was; programs that take the first device take ours.
real_state > /tmp/before
pair 20001 $with --cable shm:beside ibv_rc_pingpong -g 3 -c -n 200
phase emulated_first $?
pair 20002 $with --cable shm:beside ibv_rc_pingpong -d mlx5_0 -g 3 -c -n 200
phase emulated_named $?
real_state > /tmp/after
diff /tmp/before /tmp/after
phase untouched $?

# Under the library both are listed and opened; ours comes first.
$with ibv_devinfo -v > /tmp/both 2>&1
grep -E 'hca_id|state' /tmp/both
[ "$(grep hca_id: /tmp/both | tr -d ' \t')" = "$(printf 'hca_id:mlx5_0\nhca_id:rxe0')" ] && [ "$(grep -c 'PORT_ACTIVE (4)' /tmp/both)" = 2 ]
phase both_listed $?
$with --as dgx-spark ibv_devinfo -l > /tmp/five 2>&1
cat /tmp/five
[ "$(echo $(cat /tmp/five))" = "5 HCAs found: rocep1s0f0 rocep1s0f1 roceP2p1s0f0 roceP2p1s0f1 rxe0" ]
phase five_listed $?

# At the same time: ours under the library, the real one without it.
pair 20003 $with --cable shm:beside ibv_rc_pingpong -g 3 -c -n 300 > /tmp/ours 2>&1 &
ours=$!
pair 20004 ibv_rc_pingpong -d rxe0 -g 1 -c -n 500
real=$?
wait $ours
status=$((real + $?))
cat /tmp/ours
phase side_by_side $status

# The real one under the library.
sent() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts; }
before=$(sent)
pair 20005 $with --cable shm:beside ibv_rc_pingpong -d rxe0 -g 1 -c -n 200 && [ "$(sent)" -ge $((before + 400)) ]
phase real_under_the_library $?

# A real one with the name of ours is hidden, and comes to no harm.
rdma link add mlx5_0 type rxe netdev lo && ls /sys/class/infiniband
$with ibv_devinfo > /tmp/same 2>&1
grep -E 'hca_id|vendor_part_id' /tmp/same
[ "$(grep -c hca_id: /tmp/same)" = 2 ] && [ "$(grep -c 'hca_id:.*mlx5_0' /tmp/same)" = 1 ] && grep -q 'vendor_part_id:.*4125' /tmp/same
phase same_name $?
exit $bad
