from __future__ import annotations

import io
import re
import shutil
import time
from pathlib import Path

import pytest
from rich.console import Console

from pairloom.cluster.commands.follow import AttachedProgress
from pairloom.cluster.drive.tasks import Receipt
from pairloom.cluster.watch import progress
from pairloom.cluster.watch.progress import Lines, View, can_redraw, progress_for, run_view
from pairloom.cluster.watch.run_progress import RunFacts, RunProgress
from pairloom.cluster.watch.status import run_status
from pairloom.pipeline.accelerate import Compilation
from pairloom.pipeline.stages import STAGE_NAMES
from pairloom.pipeline.stages.run_file import read_run


class Terminal(io.StringIO):
    """A terminal that folds its lines when it is made narrower, as those of today do."""

    def __init__(self, columns=80, lines=24, encoding="utf-8", **options):
        super().__init__()
        self._encoding, self.rows = encoding, [""]
        self.row = self.column = 0
        self.console = Console(
            file=self, force_terminal=True, width=columns, height=lines, _environ={}, **options
        )

    @property
    def encoding(self):
        return self._encoding

    @property
    def columns(self):
        return self.console.width

    def isatty(self):
        return True

    def resize(self, columns):
        folded = [_folded(text, columns) for text in self.rows]
        self.row = sum(map(len, folded[: self.row]))
        self.console.width, self.rows = columns, [part for parts in folded for part in parts]

    def write(self, text):
        for part in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|[^\x1b]", text):
            self._put(part)
        return super().write(text)

    def _put(self, part):
        if part.endswith("A") and part.startswith("\x1b"):
            self.row -= int(part[2:-1])
            assert self.row >= 0
        elif part == "\x1b[2K":
            self.rows[self.row] = ""
        elif part == "\r":
            self.column = 0
        elif part == "\n":
            self.row, self.column = self.row + 1, 0
            self.rows += [""] * (self.row + 1 - len(self.rows))
        elif not part.startswith("\x1b"):
            text = self.rows[self.row]
            self.rows[self.row] = text[: self.column] + part + text[self.column + 1 :]
            self.column += 1
            assert self.column <= self.columns, "a line of the view is folded"


def _folded(text, columns):
    return [text[k : k + columns] for k in range(0, max(len(text), 1), columns)]


@pytest.fixture
def terminal(monkeypatch):
    """A terminal that nothing is drawn on as time passes."""
    monkeypatch.setattr(progress, "_DRAW_SECONDS", 60.0)
    return Terminal()


def view_rows(run, width, height, encoding="utf-8"):
    """The lines of a view, with their styles."""
    console = Terminal(width, height, encoding, color_system="standard").console
    return console.render_lines(run_view(run, console), pad=False)


def texts(rows):
    return ["".join(segment.text for segment in row) for row in rows]


def half_done(clock=time.monotonic):
    """A run of all stages in the middle of training."""
    run = RunProgress(clock)
    facts = RunFacts("imagenet50-synthetic", 50, [32] * 40, dict.fromkeys(STAGE_NAMES, 5.0))
    run.plan(facts, dict.fromkeys(STAGE_NAMES, 40))
    run.set_done(dict.fromkeys(STAGE_NAMES[:6], 40))
    run.begin("machines", 0, 40)
    run.reach(20, 640)
    run.log_loss = 0.29314
    return run


@pytest.mark.parametrize("width", [20, 40, 80, 120])
@pytest.mark.parametrize("height", [3, 10, 30])
def test_no_line_is_wider_and_no_view_higher_than_the_terminal(width, height):
    for run in (RunProgress(), half_done()):
        lines = texts(view_rows(run, width, height))
        assert all(len(line) <= width for line in lines)
        assert len(lines) <= height
        assert not any("\x1b" in line for line in lines)


def test_a_view_shows_every_stage_the_total_the_pace_and_the_loss():
    rows = view_rows(half_done(), 80, 30)
    text = "\n".join(texts(rows))
    assert all(f" {stage} " in text for stage in STAGE_NAMES)
    assert len([row for row in rows if any(segment.style and segment.style.bold for segment in row)]) == 1
    assert "imagenet50-synthetic: 50 classes, 1,280 pairs" in text
    for part in (
        "20 of 40",
        "50%",
        "% of the run",
        " left",
        "pairs per second",
        "best held-out log loss 0.2931",
    ):
        assert part in " ".join(text.split())


def test_a_low_terminal_shows_what_is_running_and_the_summary():
    lines = texts(view_rows(half_done(), 80, 8))
    assert any(line.startswith("▸ machines") for line in lines)
    assert "best held-out log loss 0.2931" in " ".join("".join(lines[-2:]).split())


def test_a_low_terminal_is_drawn_on_once_per_row(terminal):
    terminal.console.height = 8
    with View(terminal.console, half_done()) as view:
        view.note("a message")
    assert len([row for row in terminal.rows if "machines" in row]) == 1


def test_a_view_is_drawn_over_itself_below_the_messages(terminal):
    with View(terminal.console, half_done()) as view:
        view.say("starting the workers")
        view.note("first message")
        view.note("second message")
        view.advance(Receipt("machines", 20, 0.1, computed=True))
    shown = [row for row in terminal.rows if row]
    assert shown[:2] == ["first message", "second message"]
    assert len([row for row in shown if "machines" in row]) == 1
    assert len(shown) == 2 + len(view_rows(view.run, 80, 24))


@pytest.mark.parametrize("columns", [40, 60, 120])
def test_a_window_that_is_resized_shows_the_view_once(terminal, columns):
    with View(terminal.console, half_done()) as view:
        view.note("a message")
        terminal.resize(columns)
    shown = [row for row in terminal.rows if row]
    assert shown[0] == "a message"
    assert len([row for row in shown if "machines" in row]) == 1


def test_a_view_that_has_not_changed_is_not_drawn_again(terminal):
    with View(terminal.console, half_done(clock=lambda: 0.0)) as view:
        view.note("a message")
        drawn = terminal.tell()
        view._time_passed()
        assert terminal.tell() == drawn
        terminal.resize(60)
        view._time_passed()
        assert terminal.tell() > drawn


def test_whatever_is_written_to_standard_error_is_a_message(terminal, monkeypatch):
    monkeypatch.setattr("sys.stderr", terminal)
    with View(terminal.console, half_done()):
        terminal.console.print("of rich")
        print("of print", file=__import__("sys").stderr)
    assert [row for row in terminal.rows if row][:2] == ["of rich", "of print"]


def test_a_view_without_colours_sets_none():
    terminal = Terminal(color_system="standard", no_color=True)
    with View(terminal.console, half_done()):
        pass
    assert not re.search(r"\x1b\[[0-9;]*m", terminal.getvalue())


def test_lines_have_no_control_characters_and_one_per_stage():
    stream = io.StringIO()
    with Lines(stream, half_done()) as lines:
        for unit in range(20, 40):
            lines.advance(Receipt("machines", unit, 0.1, computed=True))
        lines.begin("held_out", 39, 40)
        lines.advance(Receipt("held_out", 39, 0.1, computed=True))
    found = stream.getvalue().splitlines()
    assert [line.partition(" in ")[0] for line in found] == ["machines: 40 of 40", "held_out: 40 of 40"]
    assert stream.getvalue().replace("\n", "").isprintable()


def test_lines_are_written_while_nothing_is_finished(monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    stream = io.StringIO()
    with Lines(stream) as lines:
        lines.say("reading the data")
        lines._ended.wait(1.0)
    assert stream.getvalue().count("reading the data") > 1


@pytest.mark.parametrize(
    ("environment", "terminal", "redraws"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "xterm"}, False, False),
        ({"TERM": "xterm", "FORCE_COLOR": "1"}, False, False),
    ],
)
def test_only_a_terminal_that_can_is_drawn_on(environment, terminal, redraws, monkeypatch):
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    console = Console(stderr=True, _environ=environment)
    assert can_redraw(console) == redraws
    assert isinstance(progress_for(console), View if redraws else Lines)


def test_a_stream_that_cannot_show_blocks_gets_ascii():
    assert "\n".join(texts(view_rows(half_done(), 80, 30, "ascii"))).isascii()
    assert not "\n".join(texts(view_rows(half_done(), 80, 30))).isascii()


def test_a_run_that_another_drives_is_followed_stage_by_stage(small_run, tmp_path):
    directory = tmp_path / "run"
    shutil.copytree(small_run, directory)
    plan = read_run(directory)
    hidden = tmp_path / "hidden"
    (directory / "ledger").rename(hidden)

    def show(stage, units):
        for unit in range(units):
            source = hidden / stage / f"{unit:06d}.json"
            (directory / "ledger" / stage).mkdir(parents=True, exist_ok=True)
            shutil.copy(source, directory / "ledger" / stage)
        followed.show(run_status(directory)._replace(state="running"))

    stream = io.StringIO()
    followed = AttachedProgress(directory, Lines(stream))
    show("features", 0)
    for stage in STAGE_NAMES:
        if plan.units(stage) > 1:
            show(stage, 1)
        show(stage, plan.units(stage))
    found = stream.getvalue().splitlines()[1:]
    ended = [re.match(r"(\w+): (\d+) of \2 in", line) for line in found]
    assert [line[1] for line in ended] == [stage for stage in STAGE_NAMES if plan.units(stage)]
    assert any(line.startswith("calibration: ") and "log loss" in line for line in found)


def test_the_best_log_loss_is_that_of_held_out_samples(small_run):
    found = run_status(small_run)
    assert 0 < found.log_loss < 1.7  # of five classes
    assert found.pairs == 10
    assert len(list(Path(small_run, "calibration").glob("*.json"))) == 5


def test_the_compilation_of_kernels_is_shown_while_it_lasts():
    stream = io.StringIO()
    with Lines(stream, half_done()) as lines:
        for kernel in ("solve", "calibrate"):  # one after the other, said once
            for state in ("waiting", "compiling", "compiling", "compiled"):
                lines.compiling(Compilation(state, kernel, 1.0, cached=True))
            assert not lines.run.compiling.total
    said = "compiling kernels for this machine, once, about 15 s"
    assert stream.getvalue() == f"imagenet50-synthetic: {said}\n"
