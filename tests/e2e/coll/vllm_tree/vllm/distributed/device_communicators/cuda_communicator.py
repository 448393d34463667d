# SPDX-License-Identifier: BSD-3-Clause
"""A stand-in for vLLM's module of this name, with the names and the order of asking that the plugin of lib/coll/python
relies on. cpu_group is the test's (vllm_rank.py), which also sums where vLLM would call NCCL."""
import contextlib


class CustomAllreduce:
    """vLLM's own, which disables itself between hosts; the test enables it to see who is asked."""

    def __init__(self, group):
        self.group, self.disabled, self.calls, self.capturing = group, True, 0, False

    @contextlib.contextmanager
    def capture(self):
        self.capturing = True
        yield
        self.capturing = False

    def should_custom_ar(self, inp):
        return inp.dtype == 'float64'

    def custom_all_reduce(self, inp):
        self.calls += 1
        return self.group.summed(inp)


class CudaCommunicator:
    def __init__(self, cpu_group, device=None, device_group=None, unique_name=''):
        self.cpu_group, self.device, self.device_group = cpu_group, device, device_group
        self.rank_in_group, self.world_size = cpu_group.rank, cpu_group.ranks
        self.calls = 0
        self.ca_comm = CustomAllreduce(cpu_group) if 'tp' in unique_name else None

    def all_reduce(self, input_):
        ca_comm = self.ca_comm
        if ca_comm is not None and not ca_comm.disabled and ca_comm.should_custom_ar(input_):
            out = ca_comm.custom_all_reduce(input_)
            assert out is not None
            return out
        self.calls += 1
        return self.cpu_group.summed(input_)
