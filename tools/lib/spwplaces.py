# SPDX-License-Identifier: BSD-3-Clause
"""The places of a frame's trip between source and spinwire, as spwjoin names them, and what is waited for at each."""

# The way of a frame, in order: key, name, from where to where, who is waited for.
PLACES = [
    ("due", "source: not taken", "due to taken by the source", "source"),
    ("send", "source: sending", "taken by the source to handed to its NIC", "source"),
    ("out", "source's NIC, out", "handed to the source's NIC to on the wire", "peer"),
    ("sent_out", "source's NIC, sent by",
     "handed to the source's NIC to the stamp of the send completion that covers it", "peer"),
    ("wire_out", "wire, out", "on the wire to stamped by spinwire's NIC", "nic"),
    ("in", "spinwire's NIC, in", "stamped by spinwire's NIC to its CQE", "nic"),
    ("nic_polled", "spinwire: nic_polled", "CQE (or NIC's stamp) to polled", "loop"),
    ("polled_pushed", "spinwire: polled_pushed", "polled to pushed to the executor", "loop"),
    ("pushed_start", "spinwire: pushed_start", "pushed to executor start", "loop"),
    ("start_end", "spinwire: start_end", "executor start to end", "loop"),
    ("end_reaped", "spinwire: end_reaped", "executor end to reaped", "loop"),
    ("reaped_sent", "spinwire: reaped_sent", "reaped to handed back to spinwire's NIC", "loop"),
    ("back", "spinwire's NIC, out", "handed back to on the wire", "nic"),
    ("sent_by", "spinwire's NIC, sent by", "handed back to the stamp of the send completion that covers it", "nic"),
    ("wire_back", "wire, back", "on the wire to stamped by the source's NIC", "peer"),
    ("peer_in", "source's NIC, in", "stamped by the source's NIC to its CQE", "peer"),
    ("peer_polled", "source's NIC, in", "stamped by the source's NIC, a card, to polled by the source", "source"),
    ("echo", "source: not polled", "CQE to polled by the source", "source"),
    ("beyond", "beyond spinwire's NIC", "its send completion to polled by the source: wire, source's NIC, source",
     "beyond"),
]
INDEX = {key: i for i, (key, *_) in enumerate(PLACES)}
FIRST_PART = INDEX["nic_polled"]  # part p of a batch's time is place FIRST_PART + p
PARTS = [key for key, *_ in PLACES[FIRST_PART:FIRST_PART + 6]]
WHO = {"source": "the source's loop", "peer": "the source's NIC thread", "nic": "spinwire's NIC thread",
       "loop": "spinwire's loop",
       "beyond": "the wire, the source's NIC or its loop"}
SENT_BY = {"sent_out": "peer", "sent_by": "nic"}  # places that end by a send completion, which is an upper bound
UNKNOWN = "unknown"
# What a long step of spinwire's loop is called by those who wait for it, as in lib/rec/cause.c.
HOLD_CAUSE = {"lost": "poll_gap", "port": "poll_gap", "push": "batch_ahead", "tx": "tx_stall", "refill": "refill_stall",
              "quota": "cpu_quota"}
TEXTS = {"poll_gap": "spinwire's loop did not run: it lost its core, or a receive call took long",
         "port_late": "stamped by the NIC, but polls did not return it yet",
         "port_backlog": "queueing delay in the port while the loop kept polling",
         "refill_stall": "the port had no buffer to receive into, or took long to recycle slots",
         "batch_ahead": "the executor was busy with batches before it",
         "exec_late": "the executor was free, but started late",
         "gpu_sliced": "the GPU ran another program",
         "relaunched": "the resident kernel had ended and was launched again",
         "handler_slow": "the handler itself took long", "reap_late": "finished, but the loop was busy elsewhere",
         "tx_stall": "the port took long to transmit",
         "cpu_quota": "the control group had used its CPU quota: the kernel stopped its threads",
         "sender_late": "the source's loop was not there to send",
         "sender_behind": "the source had not emptied its port",
         "peer_late": "the source's NIC thread slept, lost its core, or was in a long round",
         "nic_late": "spinwire's NIC thread slept, lost its core, or was in a long round",
         "port_full": "the source's port took no more: the path carries less than the load",
         "wire": "between the two NICs", UNKNOWN: "no evidence"}
