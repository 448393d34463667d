/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A handler with a state: a plug-in that counts TCP SYNs by destination port. spinwire shows its
 * counters in the summary, in --json, by telemetry (/spinwire/handlers) and spinwire-exporter.
 * Built as ttl.c is.
 *
 *   spinwire -l 0,1 -- --port ethdev:net_pcap0,rx_pcap=FILE --seconds 2 --handler ./syn.so
 *   ... --handler ./syn.so:port=443   this port only
 */
#include <exec/spw_handler.h>

#define TCP_OFFSET(ihl) (14 + 4 * (ihl))

/* One block for each receive queue; begins as zeros and the arguments. */
struct syn {
	uint64_t port;        /* an argument */
	uint64_t syns[65536]; /* counters */
	uint64_t other;
};

static const struct spw_handler_counter syn_counter[] = {
	SPW_TABLE(struct syn, syns, "port", "TCP SYNs by destination port"),
	SPW_COUNTER(struct syn, other, "IPv4 packets that are no such SYN"),
	{0}};
static const struct spw_handler_arg syn_arg[] = {
	SPW_ARG(struct syn, port, 0, 65535, 0, "count this port only; 0: all"), {0}};
static const struct spw_handler_state syn_state = {sizeof(struct syn), syn_counter, syn_arg, NULL,
						   NULL};

SPW_HANDLER_BODY(syn)(const struct spw_frame *frame, struct spw_lanes lanes)
{
	struct syn *syn = (struct syn *)lanes.state;
	struct spw_window win = spw_window_load(frame, lanes);
	uint32_t tcp = TCP_OFFSET(spw_window_u8(win, 14) & 15), port;

	if (frame->len < 34)
		return spw_bad(SPW_BAD_short_frame);
	if (spw_window_be16(win, 12) != 0x0800)
		return spw_bad(SPW_BAD_not_ipv4);
	port = spw_window_be16(win, tcp + 2);
	/* TCP, the first fragment, of the flags SYN but not ACK, and not another port */
	if (frame->len < tcp + 20 || spw_window_u8(win, 23) != 6 ||
	    (spw_window_be16(win, 20) & 0x1fff) || (spw_window_u8(win, tcp + 13) & 0x12) != 0x02 ||
	    (syn->port && syn->port != port)) {
		spw_count(lanes, &syn->other, 1);
		return spw_consume(0);
	}
	spw_count(lanes, &syn->syns[port], 1);
	return spw_consume(1);
}

SPW_HANDLER_PLUGIN_STATE(syn, "counts TCP SYNs by destination port", 0, &syn_state)
