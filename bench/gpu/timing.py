"""Times on a GPU: candidates in turns, by events; small work as replays of a graph. A result is (median, spread) in seconds."""
import statistics

import torch


def in_turns(candidates, rounds=15, warm=3):
    """{name: function} -> {name: (median, interquartile spread)}, one run of each in every round, right after another of its own: after a
    neighbour's the first run is up to 5 % longer for arrays of 1 GiB (docs/results/2026-11-30-h200-losses-4.md), and not for all alike."""
    names = [name for name, function in candidates.items() if function]
    for name in names:
        for _ in range(warm):
            candidates[name]()
    torch.cuda.synchronize()
    times = {name: [] for name in names}
    for turn in range(rounds):
        order = names[turn % len(names):] + names[:turn % len(names)]
        events = []
        for name in order:
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            candidates[name]()
            begin.record()
            candidates[name]()
            end.record()
            events.append((name, begin, end))
        torch.cuda.synchronize()
        for name, begin, end in events:
            times[name].append(begin.elapsed_time(end) * 1e-3)
    return {name: _summary(times[name]) for name in names}


def _summary(values):
    quarter = statistics.quantiles(values, n=4)
    return statistics.median(values), quarter[2] - quarter[0]


def replayed(functions, replays=20, each=20):
    """One call's time inside a graph of `each` calls over the given functions in turn (several buffers: nothing stays in the cache)."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for function in functions:
            function()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(each):
                functions[i % len(functions)]()
        values = []
        for i in range(replays + 3):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            if i >= 3:
                values.append(begin.elapsed_time(end) * 1e-3 / each)
    return _summary(values)
