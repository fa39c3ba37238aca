"""The paper as a command, run small: real processes on small files in the official layout."""

import os
import signal
import sys

import pytest

from docs.made_up import write_run
from labelsift.cli import main
from labelsift.reproduce import report, runner
from labelsift.reproduce.exhibits import CURVES, TABLES
from labelsift.reproduce.report import fill, overview
from labelsift.reproduce.runner import Job, Order, Outcome, run_jobs
from reproduce.small import WRITERS, write_cifar10, write_fashion_mnist, write_people
from toys import start

SMALL = ("--epochs-scale", 0.01, "--limit", 20, "--data-dir", "data")


def run(folder, *words):
    process = start(folder, "reproduce", *words)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def test_a_table_is_filled_once_and_one_failure_does_not_stop_the_others(tmp_path):
    write_cifar10(tmp_path / "data")
    words = ("table1", "--noise", "symmetric-50", "--seeds", "1", "--jobs", 2, "--out", "out", *SMALL)
    (tmp_path / "out" / "cells").mkdir(parents=True)
    blocked = "cifar10-symmetric-0.5-early-stopping-resnet18-epochs-25-stop_epoch-25-seed1-scale0.01-limit20"
    (tmp_path / "out" / "cells" / blocked).write_text("in the way")
    code, out, err = run(tmp_path, *words)
    assert (code, err) == (
        1,
        "labelsift: 1 run failed: mend what is said above, and the same command runs it again.\n",
    )
    assert f"{blocked} failed: {'out/cells/' + blocked} exists and is no run folder" in out
    assert "(scaled, not the paper's protocol)" in out
    assert "| early-stopping | symmetric-50 | test accuracy (scaled) |  |  | 70.76±1.24 |  |" in out
    row = next(line for line in out.splitlines() if "| pes | symmetric-50 | test accuracy (scaled) |" in line)
    assert "| 1 | 75.87±1.33 |" in row
    for word in (
        "pes: resnet18, epochs 1, stage_epochs 1+1+1;",
        "true noise rate: symmetric-50",
        "How the epoch was chosen: last",
        "SCALED",
    ):
        assert word in out
    for suffix in ("md", "csv", "tex"):
        page = (tmp_path / "out" / f"table1-scale0.01-limit20.{suffix}").read_text().splitlines()
        assert "scale" in page[-1 if suffix == "csv" else 0]

    (tmp_path / "out" / "cells" / blocked).unlink()
    code, out, err = run(tmp_path, *words)
    assert (code, err) == (0, "")
    assert "1/1  " + blocked in out  # what was done is not done again
    code, out, _ = run(tmp_path, *words)
    assert out.startswith("# Table 1")  # nothing was run
    assert "| early-stopping | symmetric-50 | test accuracy (scaled) |  |" not in out


def test_stopped_it_goes_on(tmp_path):
    write_cifar10(tmp_path / "data")
    words = ["table1", "--noise", "symmetric-20", "--methods", "early-stopping", "--seeds", "1-2"]
    words += ["--out", "out", *SMALL]
    process = start(tmp_path, "reproduce", *words)
    for line in process.stdout:
        if line.startswith("1/2"):
            process.send_signal(signal.SIGINT)
            break
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    code, out, _ = run(tmp_path, *words)
    assert code == 0
    assert "1/1  " in out
    assert "| 2 | 82.55±2.46 |" in out


def test_a_layer_figure(tmp_path):
    write_fashion_mnist(tmp_path / "data")
    words = (
        "figure5",
        "--noise",
        "pair-45",
        "--seeds",
        "1",
        "--out",
        "out",
        "--epochs-scale",
        0.04,
        *SMALL[2:],
    )
    code, out, err = run(tmp_path, *words)
    assert (code, err) == (0, "")
    assert "| panel | epochs on noisy labels | 1st layer | 4th layer | final layer |" in out
    assert "| Pairflip 45% | 2 |" in out
    base = tmp_path / "out" / "figure5-scale0.04-limit20"
    svg = base.with_name(base.name + ".svg").read_text()
    assert "<svg" in svg
    assert base.with_name(base.name + ".png").read_bytes().startswith(b"\x89PNG")


def test_figure_2_is_read_from_the_runs(tmp_path):
    """Runs written by hand: before the stages the net is at 0.5 + T1 / 100, after them 0.2 higher."""
    order = Order(tmp_path, {"column": ["pair-45"]}, [1, 2])
    for cell in CURVES["figure2"].cells:
        for seed in (1, 2):
            folder = order.cell_job(cell, seed).folder
            length = cell.settings["stage_epochs"][0]
            first = 0.5 + length / 100 + 0.01 * seed
            rows = [{"stage": "part 1", "test_accuracy": 0.1}] * (length - 1)
            rows += [{"stage": "part 1", "test_accuracy": first}]
            rows += [{"stage": "part 3", "test_accuracy": first + 0.2}]
            write_run(folder, cell, seed, history=rows, noise={"rate": 0.45})
    page, written = fill("figure2", order, say=pytest.fail).texts
    assert "| Pairflip 45% | 10 | 61.50±0.71 (n 2) | 81.50±0.71 (n 2) |" in page
    assert "Symmetric" not in page
    assert "True noise rate: pair-45 45.0 %." in page
    assert (tmp_path / "figure2.png").exists()
    assert "figure2.svg" in written


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("tabel2",), "did you mean 'table2'"),
        (("table2", "--methods", "pse"), "did you mean 'pes'"),
        (("table2", "--noise", "symetric-50"), "did you mean 'symmetric-50'"),
        (("table2", "--dataset", "cifar1"), "did you mean 'cifar10'"),
        (("cifar10n", "--noise", "worse"), "did you mean 'worst'"),
        (("cifar10n", "--noise", "pair-45"), "cifar10n has nothing of this"),
        (("table1", "tabel2"), "did you mean 'table2'"),
        (("table1", "figure4", "--dataset", "cifar10"), "figure4 has nothing of this"),  # before any run
        (("table2", "--seeds", "one"), "no seed"),
        (("table2", "--seeds", "5-1"), "'5-1' is no seed"),
        (("table2", "--seeds", "1,²"), "'²' is no seed"),
        (("table2", "--jobs", "0"), "--jobs"),
        (("table2", "--epochs-scale", "0"), "above 0"),
        (("table2", "--epochs-scale", "nan"), "above 0"),
        (("table2", "--epochs-scale", "inf"), "above 0"),
    ],
)
def test_it_refuses(tmp_path, monkeypatch, capsys, words, says):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["labelsift", "reproduce", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    out, err = capsys.readouterr()
    assert (stop.value.code, out) == (2, "")
    assert says in err
    assert not list(tmp_path.iterdir())


def command(monkeypatch, capsys, *words):
    """The command in this process: exit code, output and errors."""
    monkeypatch.setattr("sys.argv", ["labelsift", "reproduce", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code, *capsys.readouterr()


@pytest.mark.parametrize(("words", "seeds"), [("1,1", (1,)), ("1-3,2", (1, 2, 3)), (" 7 , 3-3,", (7, 3))])
def test_a_seed_that_is_named_twice_is_one_run(monkeypatch, capsys, words, seeds):
    orders = []
    monkeypatch.setattr(report, "fill", lambda name, order, say: orders.append(order) or Outcome([], []))
    command(monkeypatch, capsys, "table2", "--seeds", words)
    assert orders[0].seeds == seeds


def test_several_are_filled_in_their_order(monkeypatch, capsys):
    outcomes = {
        "table3": Outcome(["the third"], ["a failed: why"]),
        "figure2": Outcome(["the second"], []),
        "rest": Outcome(["the last"], ["b failed: why"]),
    }
    monkeypatch.setattr(report, "fill", lambda name, order, say: outcomes[name])
    code, out, err = command(monkeypatch, capsys, *outcomes)
    assert (code, out) == (1, "the third\nthe second\nthe last\n")
    assert err == "labelsift: 2 runs failed: mend what is said above, and the same command runs them again.\n"


def test_failed_runs_are_counted_after_the_table(monkeypatch, capsys):
    outcome = Outcome(["the table", "written: a file"], ["a failed: why", "b failed: why"])
    monkeypatch.setattr(report, "fill", lambda name, order, say: outcome)
    code, out, err = command(monkeypatch, capsys, "table2")
    assert (code, out) == (1, "the table\nwritten: a file\n")
    assert err == "labelsift: 2 runs failed: mend what is said above, and the same command runs them again.\n"


def test_data_that_is_not_at_hand_is_no_failure(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_cifar10(tmp_path / "data")
    for name, sentence in (("table5", "Clothing-1M is not in"), ("cifar10n", "The human labels are not in")):
        code, out, err = command(monkeypatch, capsys, name)
        assert (code, err) == (0, "")
        assert out.count(f"- Impossible here: {sentence}") == 1
        assert out.count("is not all in data, and what is missing cannot be downloaded") == 1


def start_jobs(folder, count, at_once, code="pass"):
    """So many processes that write how many threads they may take: what was said, and what they wrote."""
    jobs = []
    for number in range(count):
        file = folder / f"threads{number}"
        text = f"import os; open({str(file)!r}, 'w').write(os.environ.get('OMP_NUM_THREADS', 'all')); {code}"
        jobs.append(Job(f"run{number}", folder / "runs" / str(number), (sys.executable, "-c", text)))
    said = []
    failed = run_jobs(jobs, at_once, said.append, "cpu")
    return said, failed, [file.read_text() for file in sorted(folder.glob("threads*"))]


@pytest.mark.parametrize(
    ("count", "at_once", "threads"), [(2, 1, "all"), (2, 2, "6"), (3, 50, "4"), (1, 8, "all")]
)
def test_runs_side_by_side_share_the_cores(tmp_path, monkeypatch, count, at_once, threads):
    """As many as truly run at a time, which are not more than there are."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(runner.os, "cpu_count", lambda: 12)
    said, failed, taken = start_jobs(tmp_path, count, at_once)
    assert not failed
    assert [line.split()[0] for line in said] == [f"{number}/{count}" for number in range(1, count + 1)]
    assert taken == [threads] * count
    assert "OMP_NUM_THREADS" not in os.environ


def test_a_failed_run_is_said_with_its_last_line(tmp_path):
    code = "import sys; print('First.', file=sys.stderr); sys.exit('labelsift: Why.')"
    said, failed, _ = start_jobs(tmp_path, 1, 4, code)
    assert failed == ["run0 failed: Why."]
    assert said == ["1/1  run0 failed: Why."]


def listing(capsys, monkeypatch, *words):
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = command(monkeypatch, capsys, "--list", *words)
    counts = {line.split()[0]: tuple(map(int, line.split()[-5:])) for line in out.splitlines()[1:15]}
    return counts, out


def test_the_list_says_what_is_done_missing_and_impossible(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "labelsift.reproduce.at_hand.METHODS", {"ce": None, "early-stopping": None, "pes": None}
    )
    write_cifar10(tmp_path / "data")
    counts, out = listing(capsys, monkeypatch)
    names = ["figure1", "figure2", "figure3", "figure4", "figure5"]
    names += ["table1", "table2", "table3", "table4", "table5", "table6", "table9", "cifar10n", "rest"]
    assert list(counts) == names
    assert counts["figure1"] == (15, 0, 15, 0, 0)
    assert counts["figure4"] == (15, 0, 0, 15, 0)
    assert counts["table2"] == (400, 0, 50, 50, 300)
    assert counts["table5"] == (9, 0, 0, 0, 9)
    assert counts["cifar10n"] == (3, 0, 0, 0, 3)
    assert counts["rest"] == (44, 0, 20, 0, 24)
    later = "cifar100 is not all in data, and what is missing is downloaded when first needed"
    assert f"{later} (figure4, table2, table3" in out
    assert "clothing1m is not all in data, and what is missing cannot be downloaded (table5)" in out
    assert "cdr is not built yet (table2, table6)" in out
    assert "cifar10 is" not in out

    cell = next(cell for cell in TABLES["table2"].cells if cell.method == "pes")
    done = Order(tmp_path / "runs" / "reproduce").cell_job(cell, 1).folder
    write_run(done, cell)
    for write in (WRITERS["cifar100"], WRITERS["clothing1m"]):
        write(tmp_path / "elsewhere")
    counts, out = listing(capsys, monkeypatch)
    assert counts["table2"] == (400, 1, 49, 50, 300)
    assert counts["rest"] == (44, 1, 19, 0, 24)  # the same run
    counts, out = listing(capsys, monkeypatch, "--data-dir", "elsewhere")
    assert counts["figure4"] == (15, 0, 15, 0, 0)
    assert counts["table2"] == (400, 1, 50, 49, 300)
    assert "clothing1m is" not in out


def test_the_list_is_of_what_is_asked_for(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_cifar10(tmp_path / "data")
    cell = next(cell for cell in TABLES["table2"].cells if (cell.method, cell.column) == ("pes", "pair-45"))
    write_run(Order(tmp_path / "runs" / "reproduce").cell_job(cell, 1).folder, cell)
    words = ["--dataset", "cifar10", "--noise", "pair-45", "--seeds", "1-2"]
    counts, _ = listing(capsys, monkeypatch, "table2", "figure1", *words)
    assert counts == {"table2": (16, 1, 15, 0, 0), "figure1": (2, 0, 2, 0, 0)}
    counts, _ = listing(capsys, monkeypatch, "table2", "figure1", *words, "--methods", "pes")
    assert counts["table2"] == (2, 1, 1, 0, 0)
    counts, out = listing(capsys, monkeypatch, "--methods", "pes-semi", *words)
    assert list(counts) == ["figure1", "table4", "rest"]
    assert "cifar100" not in out  # which is not here either
    counts, _ = listing(capsys, monkeypatch, "table1", "--epochs-scale", "0.1", "--seeds", "3")
    assert counts == {"table1": (10, 0, 10, 0, 0)}
    for more, sentence in (
        (("table3", "--noise", "worst"), "Nothing has this data set, method and noise"),
        (("tabel3",), "did you mean 'table3'"),
    ):
        code, _, err = command(monkeypatch, capsys, "--list", *more)
        assert code == 2
        assert sentence in err
    assert [path.name for path in (tmp_path / "runs" / "reproduce" / "cells").iterdir()] == [
        "cifar10-pair-0.45-pes-resnet18-seed1"
    ]


def test_the_list_knows_that_labels_by_people_cannot_be_downloaded(tmp_path):
    def look():
        rows, notes = overview([], Order(tmp_path / "out", data_dir=str(tmp_path / "data")))
        (counts,) = [row[2:] for row in rows if row[0] == "cifar10n"]
        return counts, [note for note in notes if note.startswith("cifar10n is")]

    write_people(tmp_path)
    (tmp_path / "data").mkdir()
    start = f"cifar10n is not all in {tmp_path / 'data'}, and what is missing"
    assert look() == (("3", "0", "0", "0", "3"), [f"{start} cannot be downloaded (cifar10n)"])
    (tmp_path / "cifar10n.npz").rename(tmp_path / "data" / "cifar10n.npz")
    later = f"{start} is downloaded when first needed (cifar10n)"
    assert look() == (("3", "0", "0", "3", "0"), [later])
    write_cifar10(tmp_path / "data")
    assert look() == (("3", "0", "3", "0", "0"), [])


def test_a_run_of_fewer_examples_is_none_of_the_papers(tmp_path):
    (cell,) = [
        c for c in TABLES["table2"].cells if (c.data, c.method, c.column) == ("cifar10", "pes", "pair-45")
    ]
    job = Order(tmp_path).cell_job(cell, 1)
    write_run(job.folder, cell)
    assert job.done
    config = job.folder / "config.toml"
    config.write_text(config.read_text().replace("limit = 0\n", "limit = 20\n"))
    assert not job.done
