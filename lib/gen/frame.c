/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Writes and classifies the generator's frames (spw_gen_frame.h), without a division and without a
 * pass over the headers: only what differs between frames is computed.
 *
 *   template   all headers, with the IPv4 checksum of total_length = 0     once per sender
 *   frame      copy, lengths, checksum + length (RFC 1624), source port, stamp, zeros, CRC-32C
 *
 * The CRC covers stamp and padding, so a bit that flips anywhere in the payload is found; headers
 * may change on the way (an echo swaps addresses).
 */
#include <string.h>

#include <rte_byteorder.h>
#include <rte_hash_crc.h>
#include <rte_ip.h>

#include "gen/spw_gen_frame.h"

/* CRC-32C as in RFC 3720, appendix B.4. */
static uint32_t frame_crc32c(const uint8_t *at, uint32_t bytes)
{
	return ~rte_hash_crc(at, bytes, 0xffffffffu);
}

/* The CRC is little-endian, as the handlers expect it. */
static void frame_crc_put(uint8_t *at, uint32_t crc)
{
	uint32_t le = rte_cpu_to_le_32(crc);

	memcpy(at, &le, sizeof(le));
}

static uint32_t frame_crc_get(const uint8_t *at)
{
	uint32_t le;

	memcpy(&le, at, sizeof(le));
	return rte_le_to_cpu_32(le);
}

/* Called once for each sender; fields that differ between frames are 0. */
void gen_frame_template(const struct gen_frame_conf *conf, uint32_t sender,
			struct gen_headers *headers_out)
{
	memset(headers_out, 0, sizeof(*headers_out));
	memcpy(headers_out->eth.ether_shost, conf->src_mac, ETH_ALEN);
	memcpy(headers_out->eth.ether_dhost, conf->dst_mac, ETH_ALEN);
	headers_out->eth.ether_type = rte_cpu_to_be_16(ETHERTYPE_IP);
	headers_out->ip.version = IPVERSION;
	headers_out->ip.ihl = sizeof(headers_out->ip) / 4;
	headers_out->ip.frag_off = rte_cpu_to_be_16(IP_DF);
	headers_out->ip.ttl = IPDEFTTL;
	headers_out->ip.protocol = IPPROTO_UDP;
	headers_out->ip.saddr = rte_cpu_to_be_32(conf->src_ip);
	headers_out->ip.daddr = rte_cpu_to_be_32(conf->dst_ip);
	headers_out->udp.dest = rte_cpu_to_be_16(GEN_UDP_PORT);
	headers_out->stamp.magic_be = rte_cpu_to_be_16(GEN_MAGIC);
	headers_out->stamp.version = GEN_VERSION;
	headers_out->stamp.flags = conf->stream ? (uint8_t)(SPW_IDENT_STREAM | sender << 4) : 0;
	headers_out->stamp.run_be = rte_cpu_to_be_16(conf->run);
	/* ip.tot_len is 0 here; frame_checksum_add() adds it for each frame. */
	headers_out->ip.check = (uint16_t)~rte_raw_cksum(&headers_out->ip, sizeof(headers_out->ip));
}

/* RFC 1624, equation 3, for one 16-bit word that was 0 and becomes `word`. */
static rte_be16_t frame_checksum_add(rte_be16_t checksum, rte_be16_t word)
{
	uint32_t sum = (uint16_t)~checksum + (uint32_t)word;

	return (rte_be16_t) ~((sum & 0xffff) + (sum >> 16));
}

/* The stamp, the stream's number, zeros and the CRC: a UDP payload, or a whole message, of `bytes`.
 * Without a stream the number is 0, as the bytes there are; in the smallest frame the CRC covers
 * it. */
static void frame_payload_write(const struct gen_stamp *stamp, uint8_t *at, uint32_t bytes,
				const struct gen_mark *mark)
{
	const rte_be32_t number_be = rte_cpu_to_be_32(mark->number);
	struct gen_stamp *s = (struct gen_stamp *)at;
	uint8_t *crc_at = at + bytes - GEN_CRC_BYTES;

	*s = *stamp;
	s->flow_be = rte_cpu_to_be_16(mark->flow);
	s->seq_be = rte_cpu_to_be_32(mark->seq);
	s->due_hi_be = rte_cpu_to_be_16((uint16_t)(mark->due_ns >> 32));
	s->due_lo_be = rte_cpu_to_be_32((uint32_t)mark->due_ns);
	memset(at + sizeof(*s), 0, (size_t)(crc_at - (at + sizeof(*s))));
	memcpy(at + sizeof(*s), &number_be, sizeof(number_be));
	frame_crc_put(crc_at, frame_crc32c(at, (uint32_t)(crc_at - at)));
}

/* The sender calls this for each frame: no branch on the configuration, no pass over the headers.
 */
void gen_frame_write(const struct gen_headers *headers, uint8_t *at, uint16_t bytes,
		     const struct gen_mark *mark)
{
	struct gen_headers *h = (struct gen_headers *)at;

	memcpy(h, headers, GEN_PAYLOAD_OFFSET);
	h->ip.tot_len = rte_cpu_to_be_16((uint16_t)(bytes - sizeof(h->eth)));
	h->ip.check = frame_checksum_add(h->ip.check, h->ip.tot_len);
	h->udp.source = rte_cpu_to_be_16((uint16_t)(GEN_FLOW_PORT + mark->flow));
	h->udp.len = rte_cpu_to_be_16((uint16_t)(bytes - sizeof(h->eth) - sizeof(h->ip)));
	frame_payload_write(&headers->stamp, at + GEN_PAYLOAD_OFFSET,
			    bytes - (uint32_t)GEN_PAYLOAD_OFFSET, mark);
}

/* Of a reliable connection: the payload alone, without Ethernet, IP and UDP. */
void gen_message_write(const struct gen_headers *headers, uint8_t *at, uint16_t bytes,
		       const struct gen_mark *mark)
{
	frame_payload_write(&headers->stamp, at, bytes, mark);
}

/* The length of the UDP payload; 0 if headers or lengths are not those of a frame of ours. Ethernet
 * padding may follow the payload. */
static uint32_t frame_payload_bytes(const struct gen_headers *h, uint32_t bytes)
{
	uint32_t udp_bytes;

	if (bytes < sizeof(*h) + GEN_CRC_BYTES ||
	    h->eth.ether_type != rte_cpu_to_be_16(ETHERTYPE_IP) || h->ip.version != IPVERSION ||
	    h->ip.ihl != sizeof(h->ip) / 4 || h->ip.protocol != IPPROTO_UDP)
		return 0;
	udp_bytes = rte_be_to_cpu_16(h->udp.len);
	if (udp_bytes < sizeof(h->udp) + sizeof(h->stamp) + GEN_CRC_BYTES ||
	    udp_bytes > bytes - sizeof(h->eth) - sizeof(h->ip))
		return 0;
	return udp_bytes - (uint32_t)sizeof(h->udp);
}

/* message: the payload starts at byte 0. A CRC that does not match makes it corrupted, even if flow
 * and number look right. */
void gen_frame_read(const uint8_t *at, uint32_t bytes, bool message, uint16_t run,
		    struct gen_seen_frame *seen_out)
{
	const uint8_t *payload = message ? at : at + GEN_PAYLOAD_OFFSET;
	const struct gen_stamp *stamp = (const struct gen_stamp *)payload;
	uint32_t len = message ? bytes : frame_payload_bytes((const struct gen_headers *)at, bytes);

	seen_out->kind = GEN_KIND_FOREIGN;
	if (len < sizeof(*stamp) + GEN_CRC_BYTES ||
	    stamp->magic_be != rte_cpu_to_be_16(GEN_MAGIC) || stamp->version != GEN_VERSION)
		return;
	seen_out->flow = rte_be_to_cpu_16(stamp->flow_be);
	seen_out->seq = rte_be_to_cpu_32(stamp->seq_be);
	seen_out->due_ns = (uint64_t)rte_be_to_cpu_16(stamp->due_hi_be) << 32 |
			   rte_be_to_cpu_32(stamp->due_lo_be);
	if (frame_crc32c(payload, len - GEN_CRC_BYTES) !=
	    frame_crc_get(payload + len - GEN_CRC_BYTES))
		seen_out->kind = GEN_KIND_CORRUPTED;
	else if (stamp->run_be != rte_cpu_to_be_16(run))
		seen_out->kind = GEN_KIND_OLD_RUN;
	else
		seen_out->kind = GEN_KIND_ECHO;
}
