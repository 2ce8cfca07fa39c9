"""The same sweep on one core, on processes and on a cluster; a worker that dies takes nothing finished with it."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import joblib
import pytest
from distributed import Client, LocalCluster
from joblib.externals.loky.process_executor import TerminatedWorkerError

from posenc_lib.lab import TinyTransformer, accuracy, copy_back, train
from posenc_lib.lab import sweep as sweep_module
from posenc_lib.lab.sweep import read, sweep
from posenc_lib.schemes.rope import Rotary

SETTINGS = [{"seed": seed, "length": length} for seed in (0, 1) for length in (6, 8, 9)]


def trained(seed, length):
    """The accuracy of a model that is trained here, in whichever process this is."""
    model = TinyTransformer(Rotary(16), 16, dim=32, num_heads=2, num_layers=1, seed=seed)
    train(model, copy_back, length, steps=8, batch=8)
    return {"accuracy": accuracy(model, copy_back, length), "length": length}


def dying(number, folder):
    """The process that takes number 4 kills itself, the first time."""
    folder = Path(folder)
    mark, calls = folder / "died", folder / f"calls-{number}"
    if number == 4 and not mark.exists():
        while (folder / "results").read_text().count("\n") < 3:
            time.sleep(0.05)
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    calls.write_text((calls.read_text() if calls.exists() else "") + "x")
    return number**2


@pytest.fixture
def cluster():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as two, Client(two) as client:
        yield client


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    return sweep(trained, SETTINGS, tmp_path_factory.mktemp("serial") / "results", jobs=1)


def test_results_come_in_the_order_of_the_settings(serial):
    assert [result["length"] for result in serial] == [setting["length"] for setting in SETTINGS]
    assert serial[0] == trained(**SETTINGS[0])
    assert len({result["accuracy"] for result in serial}) > 1


def test_processes_give_the_same(serial, tmp_path):
    assert sweep(trained, SETTINGS, tmp_path / "results", jobs=2) == serial


def test_a_cluster_gives_the_same(serial, tmp_path, cluster):
    with joblib.parallel_config("dask"):
        assert sweep(trained, SETTINGS, tmp_path / "results") == serial


def test_what_is_in_the_file_is_not_computed_again(tmp_path):
    path, calls = tmp_path / "results", []

    def square(number):
        calls.append(number)
        return number**2

    assert sweep(square, [{"number": 3}], path) == [9]
    assert sweep(square, [{"number": 2}, {"number": 3}], path) == [4, 9]
    assert calls == [3, 2]
    assert list(read(path).values()) == [9, 4]


def test_an_error_leaves_what_was_finished(tmp_path):
    path = tmp_path / "results"
    with pytest.raises(ZeroDivisionError):
        sweep(lambda x: 1 / x, [{"x": 2}, {"x": 0}], path)
    assert list(read(path).values()) == [0.5]


def test_the_file_is_there_before_anything_is_computed(tmp_path, monkeypatch):
    def opened_late(path, mode, encoding):
        time.sleep(0.5)
        return open(path, mode, encoding=encoding)

    sweep(os.path.exists, [{"path": str(tmp_path)}], tmp_path / "warms the processes", jobs=2)
    monkeypatch.setattr(Path, "open", opened_late)
    assert sweep(os.path.exists, [{"path": str(tmp_path / "results")}], tmp_path / "results", jobs=2) == [True]


def test_a_killed_process_loses_nothing_that_was_finished(tmp_path):
    path, settings = tmp_path / "results", [{"number": n, "folder": str(tmp_path)} for n in range(8)]
    with pytest.raises(TerminatedWorkerError):
        sweep(dying, settings, path, jobs=2)
    finished = {json.loads(key)["number"] for key in read(path)}
    assert len(finished) >= 3
    assert sweep(dying, settings, path, jobs=2) == [n**2 for n in range(8)]
    assert all((tmp_path / f"calls-{n}").read_text() == "x" for n in finished)


def test_a_killed_worker_of_a_cluster_is_replaced(tmp_path, cluster):
    path, settings = tmp_path / "results", [{"number": n, "folder": str(tmp_path)} for n in range(8)]
    with joblib.parallel_config("dask"):
        assert sweep(dying, settings, path) == [n**2 for n in range(8)]
    assert (tmp_path / "died").exists()


def test_killed_at_random_moments_processes_lose_nothing_and_compute_nothing_twice(tmp_path):
    killed_three_times(tmp_path, "")


def test_killed_at_random_moments_on_a_cluster_it_loses_nothing_and_computes_nothing_twice(tmp_path, monkeypatch):
    """The cluster lives on: it is told by the connection that nobody waits for what it is computing."""
    monkeypatch.syspath_prepend(tmp_path)  # for the workers
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as two:
        killed_three_times(tmp_path, two.scheduler_address)


SLOW = """
import sys, time
from contextlib import nullcontext
from pathlib import Path
import joblib
from sweep import sweep

folder, run, cluster = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

def square(number):
    with (folder / f"calls-{run}").open("a") as file:
        file.write(f"{number} ")
    time.sleep(0.05)
    return number**2

if cluster:
    from distributed import Client
    client = Client(cluster)
with joblib.parallel_config("dask") if cluster else nullcontext():
    sweep(square, [{"number": n} for n in range(int(sys.argv[4]))], folder / "results", None if cluster else 2)
"""


def killed_three_times(folder, cluster, number=160):
    """Start the same sweep four times, kill the first three with all their processes, and count what they call."""
    shutil.copy(sweep_module.__file__, folder / "sweep.py")  # without the rest of the library it starts sooner
    path, finished = folder / "results", {}
    for run in range(4):
        command = [sys.executable, "-c", SLOW, str(folder), str(run), cluster, str(number)]
        environment = os.environ | {"PYTHONPATH": str(folder)}
        process = subprocess.Popen(command, env=environment, start_new_session=True)
        try:
            while run < 3 and len(read(path)) == len(finished) and process.poll() is None:
                time.sleep(0.02)
            pause = random.uniform(0, 0.4)
            time.sleep(pause)
            if run < 3:
                assert process.poll() is None, "it was not to be over yet"
            else:
                assert process.wait(120) == 0
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        now = {json.loads(key)["number"]: result for key, result in read(path).items()}
        called = [int(n) for n in (folder / f"calls-{run}").read_text().split()]
        print(f"run {run}: {len(called)} calls, {len(now)} finished, after {pause:.3f} s more")
        assert finished.items() <= now.items(), "a result was lost"
        assert not finished.keys() & set(called), "what was finished is computed again"
        assert len(called) == len(set(called))
        finished = now
    assert finished == {n: n**2 for n in range(number)}
    assert path.read_text().count("\n") == number


def test_a_line_cut_short_is_dropped_and_any_other_bad_line_refused(tmp_path):
    path, settings = tmp_path / "results", [{"x": "a"}, {"x": "é"}]
    assert sweep(lambda x: x, settings, path) == ["a", "é"]
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for end in range(first, len(whole)):  # the last of them lacks nothing but its end
        path.write_bytes(whole[:end])
        assert list(read(path).values()) == ["a"]
        assert path.read_bytes() == whole[:end], "who reads changes nothing"
    for end in (first, first + 1, len(whole) - 1):
        path.write_bytes(whole[:end])
        assert sweep(lambda x: x, settings, path) == ["a", "é"]
        assert path.read_bytes() == whole
    for bad in (b"not a result\n", b"[]\n", b"{}\n", b"\xff\n", b"\n"):
        path.write_bytes(bad + whole)
        with pytest.raises(ValueError, match="line 1, is not a result"):
            read(path)


WRITER = """
import json, sys, time

with open(sys.argv[1], "a") as file:
    for n in range(100):
        line = json.dumps({"setting": {"x": n}, "result": n}) + "\\n"
        for half in (line[:9], line[9:]):
            file.write(half)
            file.flush()
            time.sleep(0.001)
"""


def test_who_reads_while_another_process_writes_changes_nothing(tmp_path):
    path, seen = tmp_path / "results", []
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
    while writer.poll() is None:
        seen.append(list(read(path).values()))
    assert writer.returncode == 0
    assert list(read(path).values()) == list(range(100))
    assert all(found == list(range(len(found))) for found in seen)
    assert len({len(found) for found in seen}) > 3, "it was read while it was written"
