/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Error CQEs (and one WQE) written by real ConnectX cards, as drivers dumped them into public bug
 * reports. Each must decode to what its report states: the completion status and, where the report
 * names them, the QP, the opcode, the vendor syndrome and the WQE index.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>

#include "hex.h"
#include "prm/spw_prm.h"

#define ANY (-1)

struct report {
	const char *source;
	const char *last_line; /* bytes 48..63 */
	uint32_t srqn_uidx;    /* bytes 32..35, the only others that are not 0 */
	unsigned wc_status;    /* named by the report, as are the next three unless ANY */
	int vendor_err;
	int qpn;
	int opcode;          /* of the failed WQE */
	int hw_err_synd;     /* byte 52, as Linux's mlx5_err_cqe_ex has it */
	unsigned cqe_opcode; /* from the report's words: requester or responder */
};

static const struct report reports[] = {
	{"https://github.com/ofiwg/libfabric/issues/4283 (remote access error (10))",
	 "00000000 00008813 10012abe 0dd0c1d3", 2, 10, ANY, ANY, ANY, 0, SPW_PRM_CQE_REQ_ERR},
	{"https://github.com/openucx/ucx/issues/1569 (on qp 0x6214: remote access error syndrome "
	 "0x88)",
	 "00000000 00008813 08006214 0000f6d2", 0, 10, 0x88, 0x6214, ANY, 0, SPW_PRM_CQE_REQ_ERR},
	{"https://github.com/openucx/ucx/issues/1770 (remote invalid request error, on a "
	 "rendezvous read)",
	 "00000000 00008a12 100023e8 00016cd2", 2, 9, ANY, ANY, SPW_PRM_OP_RDMA_READ, 0,
	 SPW_PRM_CQE_REQ_ERR},
	{"https://github.com/openucx/ucx/issues/857 (Send completion: local QP operation error)",
	 "00000000 01006102 0800012e 1f3a2cd2", 5, 2, ANY, ANY, ANY, 1, SPW_PRM_CQE_REQ_ERR},
	{"https://github.com/spdk/spdk/issues/961 ((4): local protection error)",
	 "00000000 93005204 0a0019a1 c0921cd2", 0xb3, 4, ANY, ANY, SPW_PRM_OP_SEND, 0x93,
	 SPW_PRM_CQE_REQ_ERR},
	{"https://github.com/spdk/spdk/issues/500 ((4): local protection error)",
	 "00000000 9d005304 0800011b 0008d0d2", 1, 4, ANY, ANY, ANY, 0x9d, SPW_PRM_CQE_REQ_ERR},
	{"https://github.com/spdk/spdk/issues/264 ((10): remote access error)",
	 "00000000 00008813 10002c02 00112cd2", 4, 10, ANY, ANY, ANY, 0, SPW_PRM_CQE_REQ_ERR},
	{"https://lore.kernel.org/r/20211227123806.47530-1-dust.li@linux.alibaba.com (WC error: "
	 "10, remote access error)",
	 "00000030: 00 00 00 00 00 00 88 13 08 03 61 b3 1e a1 42 d3", 0, 10, ANY, ANY, ANY, 0,
	 SPW_PRM_CQE_REQ_ERR},
	{"https://git.kernel.org/linus/186b169cf1e4be85aa212a893ea783a543400979 (reg umr failed "
	 "(6))",
	 "00000030: 00 00 00 00 0f 00 78 06 25 00 00 58 00 da ac d2", 0, 6, ANY, ANY,
	 SPW_PRM_OP_UMR, 0x0f, SPW_PRM_CQE_REQ_ERR},
	{"https://git.kernel.org/linus/abb604a1a9c87255c7a6f3b784410a9707baf467 (WC error: 6, on "
	 "the UMR QP)",
	 "00000030: 00 00 00 00 08 00 78 06 25 00 11 b9 00 0e dd d2", 0, 6, ANY, ANY,
	 SPW_PRM_OP_UMR, 0x08, SPW_PRM_CQE_REQ_ERR},
	{"https://lore.kernel.org/r/"
	 "MW3PR19MB42505C41C2BA3F425A5CB606E42D9@MW3PR19MB4250.namprd19.prod.outlook.com "
	 "(RECV: WC error: 4, local protection error)",
	 "00000030: 00 00 00 00 a9 00 56 04 00 00 01 e9 00 54 e8 e2", 0, 4, ANY, ANY, ANY, 0xa9,
	 SPW_PRM_CQE_RESP_ERR},
	{"https://lore.kernel.org/r/cover.1611236588.git.xuanzhuo@linux.alibaba.com (qn 0x1dbb, "
	 "opcode 0xd, "
	 "syndrome 0x1, vendor syndrome 0x68, WQE index 0xf)",
	 "00000030: 00 00 00 00 60 10 68 01 0a 00 1d bb 00 0f 9f d2", 0, 1, 0x68, 0x1dbb, ANY, 0x60,
	 SPW_PRM_CQE_REQ_ERR},
};

static void decode(const struct report *r, uint8_t cqe[64])
{
	memset(cqe, 0, 64);
	spw_prm_cqe_err_set_srqn(cqe, r->srqn_uidx);
	assert_int_equal(hex_parse(r->last_line, cqe + 48, 16), 16);
}

static void check_if_named(const char *what, int named, uint64_t got)
{
	if (named != ANY && (uint64_t)named != got)
		fail_msg("%s is 0x%llx, the report states 0x%x", what, (unsigned long long)got,
			 (unsigned)named);
}

static void test_reports_decode(void **state)
{
	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(reports); i++) {
		const struct report *r = &reports[i];
		uint8_t cqe[64];
		unsigned syndrome;

		print_message("%s\n", r->source);
		decode(r, cqe);
		syndrome = spw_prm_cqe_err_get_syndrome(cqe);
		assert_int_equal(spw_prm_syndrome_wc_status(syndrome), r->wc_status);
		assert_int_equal(spw_prm_cqe_err_get_opcode(cqe), r->cqe_opcode);
		check_if_named("vendor syndrome", r->vendor_err,
			       spw_prm_cqe_err_get_vendor_err_synd(cqe));
		check_if_named("QP number", r->qpn, spw_prm_cqe_err_get_qpn(cqe));
		check_if_named("opcode", r->opcode, spw_prm_cqe_err_get_send_opcode(cqe));
		check_if_named("hardware syndrome", r->hw_err_synd,
			       spw_prm_cqe_err_get_hw_err_synd(cqe));
	}
}

/* Our dump names the status in the words of the report. */
static void test_dump_names_the_status(void **state)
{
	char text[512];
	uint8_t cqe[64];

	(void)state;
	decode(&reports[1], cqe);
	spw_prm_dump_cqe(cqe, text, sizeof(text));
	assert_non_null(strstr(text, "remote access error"));
	assert_non_null(strstr(text, "RDMA_WRITE"));
	assert_non_null(strstr(text, "qpn=0x6214"));
	decode(&reports[4], cqe);
	spw_prm_dump_cqe(cqe, text, sizeof(text));
	assert_non_null(strstr(text, "local protection error"));
}

/* The Ethernet send WQE that the kernel printed beside the last report's CQE. The card refused it
 * because no header was inline; the CQE points to it by number. */
static const char wqe_dump[] = "00000000: 00 00 0f 0a 00 1d bb 03 00 00 00 08 00 00 00 00\n"
			       "00000010: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
			       "00000020: 00 00 00 2b 00 08 00 00 00 00 00 05 9e e3 08 00\n"
			       "00000030: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n";

static void test_wqe_of_the_last_report(void **state)
{
	const struct report *r = &reports[SPW_ARRAY_CNT(reports) - 1];
	uint8_t cqe[64], wqe[64];

	(void)state;
	decode(r, cqe);
	assert_int_equal(hex_parse(wqe_dump, wqe, sizeof(wqe)), 64);
	assert_int_equal(spw_prm_wqe_ctrl_get_opcode(wqe), SPW_PRM_OP_SEND);
	assert_int_equal(spw_prm_wqe_ctrl_get_wqe_index(wqe), spw_prm_cqe_err_get_wqe_counter(cqe));
	assert_int_equal(spw_prm_wqe_ctrl_get_qpn(wqe), spw_prm_cqe_err_get_qpn(cqe));
	assert_int_equal(spw_prm_wqe_ctrl_get_ds(wqe), 3);
	assert_int_equal(spw_prm_wqe_ctrl_get_ce(wqe), SPW_PRM_CTRL_CE_CQE);
	assert_int_equal(spw_prm_wqe_eth_get_inline_hdr_sz(wqe + 16), 0);
	assert_int_equal(spw_prm_wqe_data_get_inline_seg(wqe + 32), 0);
	assert_int_equal(spw_prm_wqe_data_get_byte_count(wqe + 32), 43);
	assert_int_equal(spw_prm_wqe_data_get_lkey(wqe + 32), 0x80000);
	assert_int_equal(spw_prm_wqe_data_get_addr(wqe + 32), 0x59ee30800);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reports_decode),
		cmocka_unit_test(test_dump_names_the_status),
		cmocka_unit_test(test_wqe_of_the_last_report),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
