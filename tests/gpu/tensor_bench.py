#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bench [--json FILE] [publish | resnet]: what objects cost beside the same work without them, on a machine with a GPU
and torch. tests/gpu/tensor_bundle packs it with a spinwire that has CUDA.

publish  from an object's last frame to its hand-over, beside the way of frames from push to reap: of those, and of the
         same ones with handler sum
resnet   ResNet-18 (CUDA graph, batch 32, random weights) fed from frames, beside the same graph on resident input:
         at 0.5 of its rate how late a result is, at 1.5 and 5 times how many complete objects it takes

Frames come from the null port, numbered, so no NIC and no second program is the bound. Two processes share a GPU by
time slices; where nvidia-cuda-mps-control is, each executor on the GPU is measured with MPS as well. A figure is the
median of ROUNDS runs; each fed run lies between two runs alone, which it is compared with."""
import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import tensor_run
import spinwire
import torch

ROUNDS, SECONDS = 3, 2.0
BATCH = (32, 3, 224, 224)
PAYLOAD, PACKETS = 32768, 147  # of a batch, uint8; large, so that the source is not the bound
OBJECTS = "format: counter\nset: {{ port: 9, packets: {}, payload: {} }}\nshape: {}\nbuffers: 8\npolicy: {}\n"
CONFIG = """ports:
  - spec: "null:size={size},rate={rate},pattern=counter,stamps=1"
    objects: counter.yaml
executor: {executor}
memory: {{ slots: {slots} }}
"""
SAY = "SPW_BENCH_SAY" in os.environ  # spinwire's own accounts
LCORES = ("--lcores", "0-2", "--no-huge", "-m", "512")
EXECUTORS = {  # name: (keys, whether it shares the GPU)
    "cuda-persistent, 4 CTAs": ("{ kind: cuda-persistent, ctas: 4 }", True),
    "cuda-graph": ("{ kind: cuda-graph }", True),
    "cpu": ("{ kind: cpu }", False),
}


def written(folder, packets, payload, shape, policy, **config):
    """The files of a stream; returns its --config."""
    for name, text in (("counter.yaml", OBJECTS.format(packets, payload, list(shape), policy)),
                       ("counter.conf.yaml", CONFIG.format(size=50 + payload, slots=(64 << 20) // payload,
                                                           **config))):
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(text)
    return os.path.join(folder, "counter.conf.yaml")


def quartiles(values):
    return f"{statistics.median(values):.3f} [{min(values):.3f}, {max(values):.3f}]"


# ---- from the last frame to the hand-over ------------------------------------------------------------

def summary(folder, *args):
    """A run of spinwire; p50 of its stages, in us, and `handoff`: from push to reap."""
    path = os.path.join(folder, "summary.json")
    subprocess.run([os.path.join(tensor_run.HERE, "spinwire"), *LCORES, "--", *args, "--seconds", "1s", "--json", path,
                    "-q"], check=True, timeout=60)
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    assert document["ledger"]["residual"] == 0
    p50 = {stage["stage"]: stage["p50_ns"] / 1e3 for stage in document["latency"]}
    return {**p50, "handoff": sum(p50.get(stage, 0) for stage in ("pushed_start", "start_end", "end_reaped"))}


def publish_once(folder, rate, size, packets, kind):
    config = written(folder, packets, size, (packets, size), "newest", rate=rate, executor=f"{{ kind: {kind} }}")
    receipts = os.path.join(folder, "receipts.json")
    objects = summary(folder, "--config", config, "--receipts", receipts)
    frames = summary(folder, "--port", f"null:size={50 + size},rate={rate},stamps=1", "--executor", kind, "--handler",
                     "sum")
    with open(receipts, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    took = [row["publish_ns"] - row["last_nic_ns"] for row in rows if row["state"] == "complete"]
    return {"row": "publish", "executor": kind, "rate": rate, "bytes": size, "objects": len(took),
            "last_us": statistics.median(took) / 1e3, "placed": objects, "summed": frames}


def publish():
    for kind in ("cuda-persistent", "cpu"):
        for rate, size, packets in (("100k", 1024, 32), ("1M", 1024, 1000), ("100k", 8192, 32)):
            with tempfile.TemporaryDirectory(prefix="spinwire-") as folder:
                got = [publish_once(folder, rate, size, packets, kind) for _ in range(ROUNDS)]
            last, placed, summed = (statistics.median(row) for row in zip(*(
                (row["last_us"], row["placed"]["handoff"], row["summed"]["handoff"]) for row in got)))
            print(f"publish, {kind}, {size} B, {rate} frames/s: p50 last frame to hand-over {last:.2f} us; "
                  f"push to reap {placed:.2f}, of handler sum {summed:.2f}; difference {last - placed:.2f}, "
                  f"{last - summed:.2f}; {got[0]['objects']} objects", flush=True)
            print(f"  {got[0]['placed']}\n  {got[0]['summed']}", flush=True)
            yield from got


# ---- ResNet-18 ---------------------------------------------------------------------------------------

class Consumer:
    """Two graphs of the same model, so that one input is filled while the other is read."""

    def __init__(self):
        import torchvision  # pylint: disable=import-outside-toplevel
        torch.backends.cudnn.benchmark = True
        model = torchvision.models.resnet18(weights=None).eval().half().cuda()
        self.model = model.to(memory_format=torch.channels_last)
        self.main, self.copy = torch.cuda.Stream(), torch.cuda.Stream()
        self.input = [torch.randint(0, 256, BATCH, dtype=torch.uint8, device="cuda") for _ in range(2)]
        self.ready, self.done = ([torch.cuda.Event() for _ in range(2)] for _ in range(2))
        self.graph = [self.captured(data) for data in self.input]

    @torch.inference_mode()
    def captured(self, data):
        def look():
            return self.model((data.half() / 255).contiguous(memory_format=torch.channels_last)).argmax(1)
        with torch.cuda.stream(self.main):
            for _ in range(3):
                look()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.main):
            look()
        return graph

    def run(self, i):
        with torch.cuda.stream(self.main):
            self.graph[i].replay()
            self.done[i].record()

    def take(self, tensor, i):
        """The object goes into input i, and is given back when it is there."""
        with torch.cuda.stream(self.copy):
            self.copy.wait_event(self.done[i])
            self.input[i].copy_(torch.from_dlpack(tensor), non_blocking=True)
            self.ready[i].record()
        tensor.release()
        self.main.wait_event(self.ready[i])
        self.run(i)

    def alone(self, seconds):
        """Batches/s on input that lies there."""
        begin, n = time.monotonic(), 0
        while time.monotonic() < begin + seconds:
            self.done[n & 1].synchronize()
            self.run(n & 1)
            n += 1
        torch.cuda.synchronize()
        return n / (time.monotonic() - begin)

    def alone_late(self, rounds=300):
        """ns from the launch to the result."""
        took = []
        for _ in range(rounds):
            begin = time.monotonic_ns()
            self.run(0)
            self.done[0].synchronize()
            took.append(time.monotonic_ns() - begin)
        return statistics.median(took)

    def fed(self, stream, seconds):
        """(complete batches/s, objects/s that were sent, incomplete ones)."""
        first = last = stream.next(30)
        ids, n, partial = first.receipt.id, 0, 0
        first.release()
        begin = time.monotonic()
        while time.monotonic() < begin + seconds:
            last = stream.next(10)
            self.done[n & 1].synchronize()
            self.take(last, n & 1)
            n += 1
            partial += not last.receipt.complete
        torch.cuda.synchronize()
        took = time.monotonic() - begin
        return (n - partial) / took, (last.receipt.id - ids) / took, partial

    @staticmethod
    def polled(stream):
        """The next object, by a consumer that never sleeps."""
        until = time.monotonic() + 10
        while True:
            try:
                return stream.next(0)
            except TimeoutError:
                if time.monotonic() > until:
                    raise

    def fed_late(self, stream, seconds):
        """ns from the hand-over to the result. The counter's clock is compared with ours by the quickest take."""
        taken, took = [], []
        begin = time.monotonic()
        while time.monotonic() < begin + seconds:
            tensor = self.polled(stream)
            taken.append(time.monotonic_ns() - tensor.receipt.publish_ns)
            publish_ns = tensor.receipt.publish_ns
            self.take(tensor, 0)
            self.done[0].synchronize()
            took.append(time.monotonic_ns() - publish_ns)
        return statistics.median(took) - min(taken)


@contextlib.contextmanager
def stream_of(executor, objects_per_s):
    with tempfile.TemporaryDirectory(prefix="spinwire-") as folder:
        config = written(folder, PACKETS, PAYLOAD, BATCH, "oldest", rate=round(objects_per_s * PACKETS),
                         executor=executor)
        program = os.path.join(folder, "spinwire")
        with open(program, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nexec taskset -c 0-3 {tensor_run.HERE}/spinwire "$@" >{folder}/out 2>&1\n')
        os.chmod(program, 0o755)
        os.environ.update(RUNTIME_DIRECTORY=folder, SPINWIRE=program)
        try:
            with spinwire.open(config, device="cuda", eal=LCORES) as stream:
                yield stream
        finally:
            with open(f"{folder}/out", encoding="utf-8") as file:
                lines = file.read().splitlines()
            ran = max((i for i, line in enumerate(lines) if line.startswith("spinwire 0")), default=0)
            print("\n".join(lines[ran:]), file=sys.stderr)


def resnet_here(name):
    """All loads of one executor, in this process."""
    consumer, keys = Consumer(), EXECUTORS[name][0]
    alone = consumer.alone(1)
    rows = {"late_us": [], "more_us": [], 1.5: [], 5: []}
    for _ in range(ROUNDS):
        resident = consumer.alone_late()
        with stream_of(keys, alone / 2) as stream:
            late = consumer.fed_late(stream, SECONDS)
        rows["late_us"].append(resident / 1e3)
        rows["more_us"].append((late - resident) / 1e3)
        for load in (1.5, 5):
            before = consumer.alone(0.5)
            with stream_of(keys, alone * load) as stream:
                got, sent, partial = consumer.fed(stream, SECONDS)
            rows[load].append((got / statistics.mean((before, consumer.alone(0.5))), got, sent, partial))
    return {"alone": alone, **rows}


def resnet_row(name, mps, env):
    done = subprocess.run([sys.executable, __file__, "--here", name], env=env, capture_output=True, text=True,
                          timeout=240)
    what = f"resnet, {name}{', MPS' if mps else ''}"
    if SAY:
        print(done.stderr, flush=True)
    if done.returncode:
        print(f"{what}: failed\n{done.stdout[-1500:]}\n{done.stderr[-2500:]}", flush=True)
        return {"row": "resnet", "executor": name, "mps": mps}
    got = json.loads(done.stdout.splitlines()[-1])
    print(f"{what}: alone {got['alone'] * BATCH[0]:.0f} images/s, {statistics.median(got['late_us']):.0f} us a batch; "
          f"fed: {quartiles(got['more_us'])} us later", flush=True)
    for load in ("1.5", "5"):
        ratios, sent, partial = ([row[i] for row in got[load]] for i in (0, 2, 3))
        sent = statistics.median(sent) / got["alone"]
        print(f"  at {load}: complete {quartiles(ratios)} of alone; sent {sent:.2f} of it; {max(partial)} incomplete",
              flush=True)
    return {"row": "resnet", "executor": name, "mps": mps, **got}


@contextlib.contextmanager
def mps_daemon():
    """The environment of those who share the GPU by MPS; None where it cannot be had."""
    control = shutil.which("nvidia-cuda-mps-control")
    if not control:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        env = dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=folder, CUDA_MPS_LOG_DIRECTORY=folder)
        subprocess.run([control, "-d"], env=env, check=True, timeout=20)
        try:
            yield env
        finally:
            subprocess.run([control], input="quit\n", env=env, text=True, timeout=20, check=False)


def resnet():
    for name, (_, shares) in EXECUTORS.items():
        yield resnet_row(name, False, dict(os.environ))
        if shares:
            with mps_daemon() as env:
                if env:
                    yield resnet_row(name, True, env)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--here", choices=EXECUTORS, help="one executor's rows of resnet, in this process")
    parser.add_argument("what", nargs="?", choices=("all", "publish", "resnet"), default="all")
    args = parser.parse_args()
    if args.here:
        os.sched_setaffinity(0, set(range(4, os.cpu_count())) or {0})
        print(json.dumps(resnet_here(args.here)))
        return
    print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
    rows = [*(publish() if args.what != "resnet" else ()), *(resnet() if args.what != "publish" else ())]
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file)


if __name__ == "__main__":
    main()
