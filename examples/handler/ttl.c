/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A handler of your own: a plug-in that adds up the time-to-live of every IPv4 frame.
 * exec/spw_handler.h explains what a body may do.
 *
 *   for the CPU   cc -shared -fPIC $(pkg-config --cflags spinwire-handler) -o ttl.so ttl.c
 *   and the GPU   nvcc -x cu -shared -Xcompiler -fPIC -arch=native \
 *                      $(pkg-config --cflags spinwire-handler) -o ttl.so ttl.c
 *   then          spinwire -l 0,1 -- --port ethdev:net_pcap0,rx_pcap=FILE --seconds 2 \
 *                      --handler ./ttl.so
 *
 * In a tree that is not installed, the shell of "meson devenv -C build -w ." finds the header and
 * the programs.
 */
#include <exec/spw_handler.h>

SPW_HANDLER_BODY(ttl)(const struct spw_frame *frame, struct spw_lanes lanes)
{
	struct spw_window win = spw_window_load(frame, lanes);

	if (frame->len < 34)
		return spw_bad(SPW_BAD_short_frame);
	if (spw_window_be16(win, 12) != 0x0800)
		return spw_bad(SPW_BAD_not_ipv4);
	return spw_consume(spw_window_u8(win, 22));
}

SPW_HANDLER_PLUGIN(ttl, "adds up the time-to-live of every IPv4 frame", 0)
