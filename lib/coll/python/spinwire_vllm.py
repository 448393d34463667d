# SPDX-License-Identifier: BSD-3-Clause
"""A general plugin of vLLM (entry point group vllm.general_plugins): all_reduce of tensor-parallel groups that span
hosts, by one-shot collectives up to the size where these are faster, by what vLLM has beyond it.

vLLM finds it where this folder is in PYTHONPATH, which it has to be on every host; VLLM_PLUGINS chooses among plugins.
It takes the place that CudaCommunicator has for a custom all-reduce (ca_comm), whose own ends at the host's border:

  CudaCommunicator.all_reduce(x) ─► ca_comm.should_custom_ar(x)? ─ yes ─► ca_comm.custom_all_reduce(x): a new tensor
                                                                 └ no ──► pynccl_comm

Ranks vote (spinwire_limits.py): all use it or none. Environment, alike on all ranks: SPINWIRE_RAILS, SPINWIRE_BIND,
SPINWIRE_SECRET as rails=, bind= and secret= of spinwire_coll.Group; SPINWIRE_TIMEOUT_MS, 120000 by default, since a
rank may compile or load meanwhile; SPINWIRE_LIMIT_BYTES instead of a measured limit.

A rank that is lost is logged, and the next call raises. The steps of a CUDA graph call nothing, and would go on with
wrong sums: a process whose group is still there GRACE_S later is aborted, as PyTorch's watchdog does for NCCL."""
import contextlib
import functools
import importlib
import inspect
import logging
import os
import threading

import spinwire_coll
import spinwire_limits

MODULE = 'vllm.distributed.device_communicators.cuda_communicator'
PARAMETERS = {'cpu_group', 'device', 'unique_name'}
CALLED = {'ca_comm', 'disabled', 'should_custom_ar', 'custom_all_reduce'}  # by CudaCommunicator.all_reduce
FIELDS = ('cpu_group', 'device', 'rank_in_group', 'world_size', 'ca_comm')
WATCH_S, GRACE_S = 0.2, 1
log = logging.getLogger('vllm.spinwire')


class Platform:
    """What is asked of torch, for a communicator's device."""

    def __init__(self, comm):
        import torch  # pylint: disable=import-outside-toplevel
        self.torch, self.device = torch, torch.device(comm.device)
        self.kind, self.exchange = self.device.type, spinwire_coll.torch_exchange(comm.cpu_group)

    def zeros(self, size):
        return self.torch.zeros(size // 2, dtype=self.torch.bfloat16, device=self.device)

    def synchronize(self):
        if self.kind == 'cuda':
            self.torch.cuda.synchronize(self.device)


def boot_id():
    """The same in all containers of a host."""
    with open('/proc/sys/kernel/random/boot_id', 'rb') as f:
        return f.read()


def abort():
    """Also if the main thread is in a call that never returns."""
    os.abort()


def _watch(group, stop, ended):
    while not ended and not stop.wait(WATCH_S):
        try:
            group.check()
        except spinwire_coll.Error as why:
            ended.append(why)
            log.critical('spinwire: %s; the next all_reduce raises: restart all ranks', why)
            if not stop.wait(GRACE_S):
                log.critical('spinwire: the group is lost and still in use: this process is aborted')
                abort()


class OneShot:
    """ca_comm of a communicator; before: what was there, for what the group does not take. A thread asks how the group
    is, since the steps of a CUDA graph call nothing here."""
    disabled, backend_name = False, 'spinwire'

    def __init__(self, group, limit, platform, before=None):
        self.group, self.limit, self.platform, self.before = group, limit, platform, before
        self.stop, self.ended = threading.Event(), []
        self.thread = threading.Thread(target=_watch, args=(group, self.stop, self.ended), daemon=True)
        self.thread.start()

    def _is_ours(self, x):
        if self.ended:
            raise spinwire_coll.Error(str(self.ended[0]), self.ended[0].lost)
        return 0 < self.group.bytes_taken(x) <= self.limit

    def should_custom_ar(self, x):
        return self._is_ours(x) or bool(self.before and not self.before.disabled and self.before.should_custom_ar(x))

    def custom_all_reduce(self, x):
        return self.group.all_reduced(x) if self._is_ours(x) else self.before.custom_all_reduce(x)

    @contextlib.contextmanager
    def capture(self, *args, **more):
        """Around the capture of graphs. Calls before and after it are in other streams: they wait for each other."""
        with self.before.capture(*args, **more) if self.before else contextlib.nullcontext():
            self.platform.synchronize()
            yield
            self.platform.synchronize()

    def close(self):
        self.stop.set()
        self.thread.join()
        self.group.close()

    def __del__(self):  # vLLM drops its communicators
        self.close()


def _open(comm, platform, exchange):
    env = os.environ.get
    return spinwire_coll.Group(comm.rank_in_group, comm.world_size, exchange=exchange, device=platform.kind,
                               rails=env('SPINWIRE_RAILS'), bind=env('SPINWIRE_BIND'), secret=env('SPINWIRE_SECRET'),
                               timeout_ms=int(env('SPINWIRE_TIMEOUT_MS', '120000')))


def _limit(comm, platform, group):
    """The limit, alike on all ranks: the smallest one given, or the measured one; and a line about it."""
    given = platform.exchange(os.environ.get('SPINWIRE_LIMIT_BYTES', '').encode())
    if all(word.isdigit() for word in given):
        limit = min(map(int, given))
        return limit, f'all_reduce by spinwire up to {limit} bytes (SPINWIRE_LIMIT_BYTES)'
    return spinwire_limits.faster_up_to(group, platform.exchange, comm.all_reduce, platform.zeros, platform.synchronize)


def _attach(comm):
    missing = [name for name in FIELDS if not hasattr(comm, name)]
    if missing:
        log.error('spinwire: this vLLM\'s CudaCommunicator has no %s: it stays as it is', ', '.join(missing))
        return
    if not 2 <= comm.world_size <= 8:
        return
    platform = Platform(comm)
    log.info('spinwire: ranks of %d vote; a host without the plugin would keep them waiting here', comm.world_size)
    if len(set(platform.exchange(boot_id()))) == 1:
        return  # within a host vLLM's own ways are faster
    group, line = spinwire_limits.open_together(functools.partial(_open, comm, platform), platform.exchange)
    limit = 0
    if group:
        limit, line = _limit(comm, platform, group)
    if limit:
        comm.ca_comm = OneShot(group, limit, platform, comm.ca_comm)
    elif group:
        group.close()
    if not comm.rank_in_group:
        log.log(logging.INFO if limit else logging.WARNING, 'spinwire: %s%s', line, '' if limit else '; not used')


def _unknown(communicator):
    """Why this is no CudaCommunicator as known here; '': it is one."""
    lacks = sorted(PARAMETERS - set(inspect.signature(communicator.__init__).parameters))
    called = getattr(getattr(communicator, 'all_reduce', None), '__code__', None)
    lacks += sorted(CALLED - set(called.co_names if called else ()))
    return ', '.join(lacks)


def register():
    """Entry point, called in every process of vLLM, perhaps more than once. Returns whether the plugin is in place."""
    try:
        communicator = importlib.import_module(MODULE).CudaCommunicator
        unknown = '' if hasattr(communicator, 'spinwire') else _unknown(communicator)
    except (ImportError, AttributeError) as why:
        unknown = str(why)
    if unknown:
        log.error('spinwire: not a layout of vLLM known here (%s): vLLM stays as it is; unset it in VLLM_PLUGINS, or '
                  'take a version of spinwire for this vLLM', unknown)
        return False
    if hasattr(communicator, 'spinwire'):
        return True
    original = communicator.__init__

    @functools.wraps(original)
    def init(self, *args, **more):
        original(self, *args, **more)
        name = inspect.signature(original).bind(self, *args, **more).arguments.get('unique_name', '')
        if name.startswith('tp'):
            _attach(self)
    communicator.__init__, communicator.spinwire = init, True
    return True
