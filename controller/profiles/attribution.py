"""Attribution of a trace's time: events → op → kernel, by phase and module. Pure, one pass.

An *op* is the outermost named operation of the framework, a *kernel* each operation inside it, with
its own time. Annotations, Python functions, autograd's engine and compiled regions are not ops:
time that is only in them stays unexplained.

The module of a backward op is that of the forward op whose autograd node it runs: torch numbers
both alike. A call that waits (waiting.py) is in no op, whatever it was called by: its time is no
work. Executions of primitives may come as events of category `onednn`, each at the time of
its middle: it belongs to the kernel that runs then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from controller.profiles.marks import MODULE, PHASE, STEP
from controller.profiles.model import LOAD, Place, Span
from controller.profiles.timeline import Recorder
from controller.profiles.trace import Event
from controller.profiles.waiting import is_wait

ENGINE = "autograd::engine::evaluate_function: "
PRIMITIVE = "onednn"
"""Category of an execution of a primitive; its name is the primitive's body."""

_PHASE_OF = {
    ENGINE: "backward",
    "Optimizer.": "optimizer",
    "enumerate(DataLoader": LOAD,
}
_TORCH_MODULE = "nn.Module: "
_COMPILED = ("Torch-Compiled Region", "CompiledFunction")
"""Regions compiled by torch.compile; the kernels in them have names of their own."""


@dataclass(slots=True)
class Spent:
    """The count of something and its seconds."""

    calls: int = 0
    self_s: float = 0.0
    total_s: float = 0.0
    least_s: float = float("inf")


@dataclass(slots=True)
class Attribution:
    """The attribution of a whole trace."""

    steps: list[float] = field(default_factory=list)
    """Seconds of each step; of the whole trace if it doesn't mark steps."""
    primitives_s: list[float] = field(default_factory=list)
    """Seconds of each step's primitives, if the trace marks steps."""
    kernels: dict[Place, Spent] = field(default_factory=dict)
    """A place without an op is time outside all ops."""
    primitives: dict[tuple[Place, str], Spent] = field(default_factory=dict)
    """(Place of the kernel, body of the primitive) → time."""
    outside: int = 0
    """Events outside of steps."""
    disordered: int = 0
    """Events that start before an event that was read earlier; left out."""
    example: str | None = None
    """The first of them."""

    named: dict[int, float] = field(default_factory=dict)
    """Thread → own seconds of its named operations."""
    marked: bool = True
    """The trace tells steps apart."""
    step_starts_s: list[float] = field(default_factory=list)
    """When each step began, if it does."""
    began_s: float = 0.0
    """When its first event did."""
    load_s: float = 0.0
    """Loading batches, where that is no part of the steps."""
    spans: tuple[Span, ...] = ()
    """The timeline of the quickest step."""
    short: int = 0
    """Spans that are left out of it, the shortest."""

    @property
    def threads(self) -> int:
        """Return on how many threads named operations ran; at least one."""
        return max(1, len(self.named))

    @property
    def explained(self) -> float:
        """Return the share of the steps' time that is the own time of named operations.

        Only the thread with the most of it counts, since threads run side by side.
        """
        total = sum(self.steps)
        return max(self.named.values(), default=0.0) / total if total else 0.0


@dataclass(slots=True)
class _Frame:
    """An event that has not ended."""

    event: Event
    end_s: float
    seconds: float
    """Those before the end of what it is in, which are all unless clocks differ."""
    place: Place
    in_step: bool
    depth: int = 0
    """Frames around it within the step, without those of steps and phases."""
    inside_s: float = 0.0
    """Seconds of the events directly inside it."""


def attribute(found: Iterable[Event], *, load_apart: bool = False) -> Attribution:
    """Fold events into what they come to, in the order of their starts.

    load_apart: loading a batch is no part of a step, and left out of all but `load_s`.
    """
    folding = _Folding(load_apart=load_apart)
    for event in found:
        folding.take(event)
    return folding.finish()


class _Folding:
    """The stacks of open events of all threads, and the attribution so far."""

    def __init__(self, *, load_apart: bool) -> None:
        self.result = Attribution()
        self._load_apart = load_apart
        self._load_s = 0.0
        """In the step that is under way."""
        self._stacks: dict[int, list[_Frame]] = {}
        self._modules: dict[int, str] = {}
        """Sequence number → module of the forward op that created the node."""
        self._step: _Frame | None = None
        self._first_s, self._last_s = float("inf"), 0.0
        self._recorder = Recorder()

    def take(self, event: Event) -> None:
        """Take the next event."""
        if event.category == PRIMITIVE:
            self._take_primitive(event)
            return
        stack = self._stacks.setdefault(event.thread, [])
        if stack and event.start_s < stack[-1].event.start_s:
            self.result.disordered += 1
            self.result.example = self.result.example or event.name
            return
        self._make_way(stack, event)
        if event.name.startswith(STEP):
            self._begin_step()
        parent = stack[-1] if stack else None
        end_s = event.start_s + event.seconds
        left_s = parent.end_s - event.start_s if parent else event.seconds
        frame = _Frame(
            event,
            min(end_s, parent.end_s) if parent else end_s,
            min(event.seconds, left_s),
            self._place(event, parent.place if parent else Place()),
            in_step=bool(parent and parent.in_step) or self._in_step(event),
            depth=_depth_in(parent),
        )
        if event.name.startswith(STEP):
            self._step, frame.in_step, frame.depth = frame, True, 0
            self.result.step_starts_s.append(event.start_s)
            self.result.primitives_s.append(0.0)
            self._recorder.begin_step(frame)
        elif frame.in_step:
            self._recorder.take(frame)
        stack.append(frame)
        self._first_s = min(self._first_s, event.start_s)
        self._last_s = max(self._last_s, frame.end_s)

    def _begin_step(self) -> None:
        self._modules.clear()
        if self._step is None:
            # The trace marks steps: events before the first belong to none, nor do those around it.
            for frame in (frame for stack in self._stacks.values() for frame in stack):
                frame.in_step = False
            self.result.outside += sum(spent.calls for spent in self.result.kernels.values())
            self.result.kernels.clear()
            self.result.named.clear()
            self.result.load_s = self._load_s = 0.0

    def finish(self) -> Attribution:
        """Return the attribution of all events."""
        for stack in self._stacks.values():
            self._end_before(stack, float("inf"))
        self.result.marked = self._step is not None
        self.result.began_s = self._first_s
        self.result.spans, self.result.short = self._recorder.spans()
        if self._step is None and self._last_s:
            # The trace doesn't mark steps: it counts as one step.
            self.result.steps.append(self._last_s - self._first_s - self.result.load_s)
        return self.result

    def _in_step(self, event: Event) -> bool:
        """Return whether an event that is in none of the step's falls into its time."""
        return self._step is None or event.start_s < self._step.end_s

    def _take_primitive(self, event: Event) -> None:
        middle = event.start_s
        if self._step is None or not self._step.event.start_s <= middle < self._step.end_s:
            self.result.outside += 1
            return
        stack = self._stacks[self._step.event.thread]
        self._end_before(stack, middle)
        frame = stack[-1] if stack else self._step
        place = _spent_at(frame)
        self._recorder.take_primitive(event, frame)
        if self._is_apart(place):
            self.result.outside += 1
            return
        spent = self.result.primitives.setdefault((place, event.name), Spent())
        _add(spent, event.seconds, event.seconds)
        self.result.primitives_s[-1] += event.seconds

    def _place(self, event: Event, parent: Place) -> Place:
        """Return the place of an event inside `parent`."""
        place = replace(parent, kernel="", dims="", strides="", dtypes="", values="")
        if is_wait(event.category, event.name):
            return replace(place, op="", kernel=_without_address(event.name))
        if event.category != "cpu_op" or _is_catch_all(event.name):
            return self._annotated(event, place)
        return replace(
            place,
            module=self._module_of(event, place),
            op=place.op or event.name,
            kernel=event.name,
            dims=event.dims,
            strides=event.strides,
            dtypes=event.dtypes,
            values=event.values,
        )

    def _annotated(self, event: Event, place: Place) -> Place:
        name = event.name
        if name.startswith(PHASE):
            return replace(place, phase=name.removeprefix(PHASE))
        if name.startswith(MODULE):
            return replace(place, module=name.removeprefix(MODULE))
        if name.startswith(_TORCH_MODULE):
            path = name.removeprefix(_TORCH_MODULE)
            return replace(place, module=f"{place.module}.{path}" if place.module else path)
        for beginning, phase in _PHASE_OF.items():
            if name.startswith(beginning):
                return replace(place, phase=phase, module=self._module_of(event, place))
        return replace(place, module=self._module_of(event, place))

    def _module_of(self, event: Event, place: Place) -> str:
        """Return the module of an event; records the module of each autograd node's forward op."""
        if event.sequence is None:
            return place.module
        if event.backward or event.name.startswith(ENGINE):
            return self._modules.get(event.sequence, place.module)
        self._modules[event.sequence] = place.module
        return place.module

    def _make_way(self, stack: list[_Frame], event: Event) -> None:
        """End what an event is not in: it is in what runs at its middle, as clocks are rounded."""
        middle_s = event.start_s + event.seconds / 2
        while stack and stack[-1].end_s <= middle_s:
            frame = stack[-1]
            frame.seconds -= max(0.0, frame.end_s - event.start_s)
            frame.end_s = min(frame.end_s, event.start_s)
            self._end_before(stack, event.start_s)

    def _end_before(self, stack: list[_Frame], now_s: float) -> None:
        while stack and stack[-1].end_s <= now_s:
            frame = stack.pop()
            if stack:
                stack[-1].inside_s += frame.seconds
            self._ended(frame)

    def _ended(self, frame: _Frame) -> None:
        if not frame.in_step:
            self.result.outside += 1
            return
        place = _spent_at(frame)
        own_s = max(0.0, frame.seconds - frame.inside_s)
        if self._is_apart(place):
            self.result.load_s += own_s
            self._load_s += own_s
            return
        if frame.event.name.startswith(STEP):
            self.result.steps.append(frame.seconds - self._load_s)
            self._load_s = 0.0
        spent = self.result.kernels.setdefault(place, Spent())
        _add(spent, own_s, frame.seconds)
        if place.op:
            thread = frame.event.thread
            self.result.named[thread] = self.result.named.get(thread, 0.0) + own_s

    def _is_apart(self, place: Place) -> bool:
        return self._load_apart and place.phase == LOAD


def _depth_in(parent: _Frame | None) -> int:
    if parent is None or not parent.in_step:
        return 0
    return parent.depth + (not parent.event.name.startswith((STEP, PHASE)))


def _spent_at(frame: _Frame) -> Place:
    """Return where a frame's own time is: in its op only while a kernel of it runs."""
    return frame.place if frame.place.kernel else replace(frame.place, op="")


def _without_address(name: str) -> str:
    """Return a call's name without the object of Python's that it was made on."""
    return name.partition(" object at ")[0]


def _is_catch_all(name: str) -> bool:
    return name.startswith((*_PHASE_OF, *_COMPILED, STEP, PHASE, MODULE))


def _add(spent: Spent, self_s: float, total_s: float) -> None:
    spent.calls += 1
    spent.self_s += self_s
    spent.total_s += total_s
    spent.least_s = min(spent.least_s, total_s)
