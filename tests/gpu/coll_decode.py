#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""coll_decode.py RANK RANKS PORT REPLAYS: a Llama of transformers with random weights in f32, its heads and its feed
forward layers split over the ranks (tensor parallelism), two all_reduces a layer. A step takes the last WINDOW tokens
and appends the likeliest next one.

  limit    up to which size the one-shot all_reduce is faster than NCCL, the same on every rank
  tokens   STEPS steps: the same tokens on every rank, by one-shot all_reduce, by NCCL and by one GPU alone
  replays  the step in a CUDA graph, REPLAYS times: no kernel of NCCL in it, the first tokens those of before, and a
  hash of all of them the same on every rank
  killed   the last rank ends itself in mid-replay: the others name it within the group's time-out"""
import os
import sys
import time

import torch
import torch.distributed as dist
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import spinwire_coll  # noqa: E402  (found by the line above)
import spinwire_limits  # noqa: E402

WINDOW, STEPS, TIMEOUT_MS = 8, 64, 3000
CONFIG = {'hidden_size': 1024, 'intermediate_size': 2816, 'num_hidden_layers': 4, 'num_attention_heads': 16,
          'num_key_value_heads': 8, 'vocab_size': 4096, 'use_cache': False, 'attn_implementation': 'eager',
          'initializer_range': 0.2}


def model_of_all():
    torch.manual_seed(7)
    return LlamaForCausalLM(LlamaConfig(**CONFIG)).to('cuda', torch.float32).eval()


class Summed(torch.nn.Module):
    """A layer whose output is summed over the ranks."""

    def __init__(self, layer, reduce):
        super().__init__()
        self.layer, self.reduce = layer, reduce

    def forward(self, x):
        return self.reduce(self.layer(x))


def split(model, rank, ranks, reduce):
    """This rank's share of each layer; heads stay whole, so attention needs no word of it."""
    def keep(layer, dim):
        layer.weight = torch.nn.Parameter(layer.weight.detach().chunk(ranks, dim)[rank].contiguous())
        return layer
    for block in model.model.layers:
        attention, mlp = block.self_attn, block.mlp
        for layer in (attention.q_proj, attention.k_proj, attention.v_proj, mlp.gate_proj, mlp.up_proj):
            keep(layer, 0)
        attention.o_proj = Summed(keep(attention.o_proj, 1), reduce)
        mlp.down_proj = Summed(keep(mlp.down_proj, 1), reduce)
    return model


class Decode:
    """Steps without a word of the CPU: they can be captured."""

    def __init__(self, model):
        self.model = model
        self.ids = torch.arange(WINDOW, device='cuda').reshape(1, WINDOW)
        self.mask = torch.full((1, 1, WINDOW, WINDOW), float('-inf'), device='cuda').triu(1)
        self.hash = torch.zeros(1, dtype=torch.int64, device='cuda')

    def step(self):
        token = self.model(self.ids, attention_mask=self.mask, use_cache=False).logits[:, -1].argmax(-1, keepdim=True)
        self.ids.copy_(torch.cat((self.ids[:, 1:], token), 1))
        self.hash.mul_(31).add_(token[0])

    def tokens(self):
        self.ids.copy_(torch.arange(WINDOW, device='cuda').reshape(1, WINDOW))
        found = []
        for _ in range(STEPS):
            self.step()
            found.append(self.ids[0, -1].item())
        return found


def by_nccl(x):
    dist.all_reduce(x)
    return x


def everywhere(what):
    """That value of each rank."""
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, what)
    return values


def check_tokens(group, rank, ranks):
    want = Decode(model_of_all()).tokens()
    decode = Decode(split(model_of_all(), rank, ranks, group.all_reduced))
    for name, got in (('one-shot', decode.tokens()),
                      ('NCCL', Decode(split(model_of_all(), rank, ranks, by_nccl)).tokens())):
        assert everywhere(got) == [got] * ranks, f'{name}: ranks differ'
        assert got == want, f'{name}: {got} instead of {want}'
    torch.cuda.synchronize()
    group.check()
    print(f'rank {rank}: tokens: {STEPS} steps, {len(set(want))} different tokens: one-shot, NCCL and one GPU agree',
          flush=True)
    return decode, want


def captured(decode):
    """The step as a graph, its tokens begun anew."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        decode.step()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode='thread_local'):
        decode.step()
    decode.ids.copy_(torch.arange(WINDOW, device='cuda').reshape(1, WINDOW))
    decode.hash.zero_()
    torch.cuda.synchronize()
    return graph


def kernels_of(graph):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        graph.replay()
        torch.cuda.synchronize()
    return [event.key for event in profile.key_averages()]


def check_replays(decode, want, group, rank, replays):
    graph, got = captured(decode), []
    for _ in range(STEPS):
        graph.replay()
        got.append(decode.ids[0, -1].item())
    assert got == want, f'replayed: {got} instead of {want}'
    begin = time.perf_counter()
    for turn in range(STEPS, replays):
        graph.replay()
        if turn % 1000 == 0:
            torch.cuda.synchronize()
            group.check()
    torch.cuda.synchronize()
    group.check()
    took = time.perf_counter() - begin
    assert len(set(everywhere(decode.hash.item()))) == 1, 'ranks differ'
    names = kernels_of(graph)
    assert names and not [name for name in names if 'nccl' in name.lower()], names
    print(f'rank {rank}: replays: {replays} steps of {2 * CONFIG["num_hidden_layers"]} all_reduces, '
          f'{took * 1e6 / (replays - STEPS):.0f} us each, the same tokens on every rank; {len(names)} kinds of kernel, '
          'none of NCCL', flush=True)
    return graph


def check_killed(graph, group, rank, ranks):
    dist.barrier()
    for turn in range(200):
        if rank == ranks - 1 and turn == 100:
            os._exit(0)
        graph.replay()
    begin = time.perf_counter()
    torch.cuda.synchronize()
    try:
        group.check()
    except spinwire_coll.Error as why:
        assert why.lost == [ranks - 1], why.lost
        print(f'rank {rank}: killed: {time.perf_counter() - begin:.2f} s after the last launch: {why}', flush=True)
        return
    raise AssertionError('nobody missed the rank that ended')


def main():
    rank, ranks, port, replays = map(int, sys.argv[1:])
    torch.cuda.set_device(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    dist.init_process_group('cpu:gloo,cuda:nccl', init_method=f'tcp://127.0.0.1:{port}', rank=rank, world_size=ranks)
    group, why = spinwire_limits.open_together(lambda exchange: spinwire_coll.Group(
        rank, ranks, exchange=exchange, device='cuda', rails='mlx5_0', bind='127.0.0.1:0', timeout_ms=TIMEOUT_MS),
                                               spinwire_coll.torch_exchange())
    assert group, why
    limit, line = spinwire_limits.faster_up_to(group, spinwire_coll.torch_exchange(), by_nccl,
                                               lambda size: torch.zeros(size // 2, dtype=torch.bfloat16, device='cuda'),
                                               torch.cuda.synchronize)
    assert everywhere(limit) == [limit] * ranks
    print(f'rank {rank}: {line}', flush=True)
    with torch.inference_mode():
        decode, want = check_tokens(group, rank, ranks)
        graph = check_replays(decode, want, group, rank, replays)
        check_killed(graph, group, rank, ranks)
    print(f'rank {rank}: good', flush=True)
    os._exit(0)  # NCCL would wait for the rank that is gone


main()
