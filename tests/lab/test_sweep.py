"""The same sweep on one core, on processes and on a cluster; a worker that dies takes nothing finished with it."""

import json
import os
import signal
import time
from pathlib import Path

import joblib
import pytest
from distributed import Client, LocalCluster
from joblib.externals.loky.process_executor import TerminatedWorkerError

from posenc_lib.lab import TinyTransformer, accuracy, copy_back, train
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


def test_a_line_cut_short_is_dropped_and_any_other_bad_line_refused(tmp_path):
    path = tmp_path / "results"
    sweep(lambda x: x, [{"x": 1}, {"x": 2}], path)
    whole = path.read_text()
    path.write_text(whole[:-5])
    assert list(read(path).values()) == [1]
    assert sweep(lambda x: x, [{"x": 1}, {"x": 2}], path) == [1, 2]
    assert path.read_text() == whole
    path.write_text("not a result\n" + whole)
    with pytest.raises(ValueError, match="line 1, is not a result"):
        read(path)
