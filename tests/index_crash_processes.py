"""What the processes of test_index_crash.py do.

Run as a script, it imports everything once and then forks a process for each command, so that fifty crashes take
seconds. Commands are lines `JSON list of a function's name and its arguments` on stdin; for each one it prints the
process's number at once and how that process ended.
"""

import json
import os
import signal
import sys
import traceback
from functools import cache

import torch
from index_fakes import FakeEncoder, fast_config, make_queries, make_table, make_tables

from gtr_gpu.features import structural
from gtr_gpu.features.semantic import Encoder
from gtr_gpu.index import GTRIndex

N_TABLES = 40
OTHERS = range(100, 106)
QUERIES = make_queries([*make_tables(N_TABLES), *map(make_table, OTHERS)], 3)

State = tuple[frozenset[str], torch.Tensor]


def build(path, seed):
    """Replaces whatever index is there by that of a corpus; each seed has one of its own."""
    tables = make_tables(N_TABLES if seed == 0 else N_TABLES - 7, seed)
    GTRIndex.build(tables, path, config=fast_config(), overwrite=True).close()


def add(path, *_):
    """Adds six tables, one of which replaces an old one."""
    GTRIndex.load(path).add([*map(make_table, OTHERS), make_table(3, version=1)])


def remove(path, *_):
    GTRIndex.load(path).remove([f"t{number}" for number in (1, 4, 9, 16)])


def state_of(index) -> State:
    """What distinguishes one state from another: the ids that a search finds, and their scores."""
    result = index.search(QUERIES, len(index))
    return frozenset(result.table_ids[0]), result.scores


def is_one_of(state: State, legal: list[State]) -> int:
    """Which of the legal states a state is; raises an error for any other."""
    for number, (ids, scores) in enumerate(legal):
        if state[0] == ids and torch.allclose(state[1], scores, rtol=0, atol=1e-5):
            return number
    raise AssertionError(f"neither the old nor the new state: {len(state[0])} tables, {state[1][:, :3]}")


def read(path, legal_path):
    """Opens and searches without a rest until stdin ends; prints how often, or what went wrong."""
    legal = torch.load(legal_path, weights_only=False)
    kept, kept_state, reads, seen = None, None, 0, set()
    say("ready")
    os.set_blocking(0, False)
    while sys.stdin.buffer.raw.read(1) is None:
        index = GTRIndex.load(path)
        state = state_of(index)
        seen.add(is_one_of(state, legal))
        if kept is not None:
            # A handle that was opened before goes on giving what it gave.
            again = state_of(kept)
            assert again[0] == kept_state[0] and torch.equal(again[1], kept_state[1])
        kept, kept_state, reads = index, state, reads + 1
    say(json.dumps([reads, sorted(seen)]))


def say(what):
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def prepare():
    """Puts the free encoder in place and loads what else would be loaded late, before any fork."""
    torch.set_num_threads(1)
    # What a shell starts in the background ignores Ctrl-C, and so would all that is forked here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    encoder = FakeEncoder()
    Encoder.load = classmethod(lambda *_: encoder)
    structural.load_pipeline = cache(structural.load_pipeline)
    structural.load_pipeline("blank:en")


def serve():
    prepare()
    GTRIndex.build(make_tables(3), config=fast_config()).close()  # warms what is imported late
    # A Ctrl-C that comes before a new process has begun waits until it has.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    say("ready")
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
                globals()[name](*arguments)
                os._exit(0)
            except KeyboardInterrupt:
                os._exit(130)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        say(child)
        say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["read"]:
        prepare()
        read(*sys.argv[2:])
    else:
        serve()
