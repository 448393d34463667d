/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The counters of a port, listed once: the NIC counts, and the emulated sysfs and ethtool publish
 * them under mlx5's names. Counters of what the model does not do (congestion control, symbol
 * errors) stay 0, as on a quiet card.
 * Source: Linux drivers/infiniband/core/sysfs.c (counters), drivers/infiniband/hw/mlx5/counters.c
 * (hw_counters). port_*_data count words of 4 bytes, as InfiniBand defines them.
 * rnr_nak_retry_err, packet_seq_err and local_ack_timeout_err count what was repeated: the failure
 * that exceeds a QP's retries is in req_*_retries_exceeded. Source: NVIDIA, "Understanding mlx5
 * Linux Counters and Status Parameters" ("The QP retry limit was not exceeded"); Linux commit
 * b339e0a39dc3, since 6.11.
 */
#ifndef SPW_SOFTHCA_HCA_CNT_H
#define SPW_SOFTHCA_HCA_CNT_H

#include "base/spw_types.h"

/* clang-format off */

/* ports/1/counters */
#define HCA_PORT_CNT(X)                                                                   \
	X(excessive_buffer_overrun_errors) X(link_downed) X(link_error_recovery)          \
	X(local_link_integrity_errors) X(multicast_rcv_packets) X(multicast_xmit_packets) \
	X(port_rcv_constraint_errors) X(port_rcv_data) X(port_rcv_errors)                 \
	X(port_rcv_packets) X(port_rcv_remote_physical_errors)                            \
	X(port_rcv_switch_relay_errors) X(port_xmit_constraint_errors) X(port_xmit_data)  \
	X(port_xmit_discards) X(port_xmit_packets) X(port_xmit_wait) X(symbol_error)      \
	X(unicast_rcv_packets) X(unicast_xmit_packets) X(VL15_dropped)

/* ports/1/hw_counters */
#define HCA_HW_CNT(X)                                                                     \
	X(duplicate_request) X(implied_nak_seq_err) X(local_ack_timeout_err)              \
	X(np_cnp_sent) X(np_ecn_marked_roce_packets) X(out_of_buffer) X(out_of_sequence)  \
	X(packet_seq_err) X(req_cqe_error) X(req_cqe_flush_error)                         \
	X(req_remote_access_errors) X(req_remote_invalid_request)                         \
	X(req_rnr_retries_exceeded) X(req_transport_retries_exceeded) X(resp_cqe_error)   \
	X(resp_cqe_flush_error) X(resp_local_length_error) X(resp_remote_access_errors)   \
	X(rnr_nak_retry_err) X(roce_adp_retrans) X(roce_adp_retrans_to)                   \
	X(roce_slow_restart) X(roce_slow_restart_cnps) X(roce_slow_restart_trans)         \
	X(rp_cnp_handled) X(rp_cnp_ignored) X(rx_atomic_requests) X(rx_icrc_encapsulated) \
	X(rx_read_requests) X(rx_write_requests)

/* Of ethtool (en_stats.c): the counters of the physical port that no counter above equals. Frames
 * between two functions of one port, *_chip_*, are in the counters above and not in the port's. */
#define HCA_PHY_CNT(X)                                                   \
	X(rx_bytes_phy) X(tx_bytes_phy) X(rx_discards_phy)               \
	X(rx_oversize_pkts_phy)                                          \
	X(rx_pause_ctrl_phy) X(tx_pause_ctrl_phy)                        \
	X(rx_chip_packets) X(tx_chip_packets) X(rx_chip_multicast)

/* clang-format on */

#define HCA_CNT_FIELD(name) uint64_t name;

/* Writer: the NIC, by spw_thr_count. Readers: any thread, by spw_thr_load_rlx. */
struct hca_cnt {
	HCA_PORT_CNT(HCA_CNT_FIELD)
	HCA_HW_CNT(HCA_CNT_FIELD)
	HCA_PHY_CNT(HCA_CNT_FIELD)
};

#endif
