# SPDX-License-Identifier: BSD-3-Clause
"""What tests of two ranks under NCCL share: where they lie, NCCL's variables, a free TCP port."""
import os
import socket

HERE = os.path.dirname(os.path.realpath(__file__))
# nothing but the network joins the ranks
ENV = {'NCCL_P2P_DISABLE': '1', 'NCCL_SHM_DISABLE': '1', 'NCCL_SOCKET_IFNAME': 'lo', 'NCCL_IB_GID_INDEX': '3',
       'NCCL_NVLS_ENABLE': '0', 'NCCL_DMABUF_ENABLE': '0', 'NCCL_NET_GDR_LEVEL': 'LOC', 'NCCL_NET_PLUGIN': 'spinwire',
       'NCCL_DEBUG': 'INFO', 'GLOO_SOCKET_IFNAME': 'lo', 'TORCH_NCCL_ASYNC_ERROR_HANDLING': '1'}


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return str(s.getsockname()[1])
