# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest of tools/rxe-guest, where rxe0 is the kernel's own RDMA device: sh rxe_guest.sh WITH-SOFTHCA LIBRARY PROGRAM...
# Each phase says "PHASE name ok" or what went wrong, and the status is 1 if one did.
with="sh $1 --cable shm:rxe --accept all --devices 2"
export SPW_SOFTHCA_LIB="$2"
shift 2
bad=0

sent() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts; }

phase() { # NAME LEAST COMMAND...: it succeeds, and rxe0 sends so many packets
	name=$1 least=$2
	shift 2
	before=$(sent)
	timeout 200 "$@" 2>&1
	status=$?
	packets=$(($(sent) - before))
	echo "rxe0 sent $packets packets"
	if [ $status = 0 ] && [ $packets -ge "$least" ]; then
		echo "PHASE $name ok"
	else
		echo "PHASE $name FAILED (status $status, $packets packets)"
		bad=1
	fi
}

for program; do
	test=$(basename "$program")
	phase "${test}_alone" 20000 "$program" verbs:rxe0 verbs:rxe0
	phase "${test}_of_two" 5000 $with "$program" mlx5_0+verbs:rxe0 mlx5_1+verbs:rxe0
done
exit $bad
