from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.contracts.device import Device, DeviceKind
from controller.contracts.errors import SelectorInvalid
from controller.scheduling.selector import MAX_CLAUSES, MAX_DEPTH, parse_selector

SERVER = Device(
    id="cpu-1",
    kind=DeviceKind.CPU_HOST,
    virtual=False,
    labels={"rack": "7", "room": "north wing", "has-gpu": "no", "note": 'a"b\\c'},
    facts={"cores": 32, "ghz": 2.5, "isa": ("avx2", "amx_bf16"), "hypervisor": True, "room": "x"},
)


def objection(text: str) -> str | None:
    return parse_selector(text).objection(SERVER)


@pytest.mark.parametrize(
    "text",
    [
        "any",
        'kind == "cpu_host"',
        "kind == cpu_host",
        "kind==cpu_host",
        "  kind\n ==\tcpu_host ",
        "device == cpu-1",
        'device == "cpu-1"',
        "virtual == false",
        "hypervisor == true",
        "hypervisor != false",
        "cores == 32",
        "cores == 32.0",
        "cores >= 32",
        "cores <= 32",
        "cores > 31",
        "cores < 33",
        "cores != 31",
        "cores > -1",
        "ghz > 2.4",
        "cores != many",
        "isa has avx2",
        'isa has "amx_bf16"',
        'rack == "7"',
        "has-gpu == no",
        'note == "a\\"b\\\\c"',
        'room == "north wing"',
        "kind > android",
    ],
)
def test_clauses_that_match(text: str) -> None:
    assert objection(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cores >= 64", "cores >= 64 (it has 32)"),
        ("ghz < 2.25", "ghz < 2.25 (it has 2.5)"),
        ("memory >= 1", "memory >= 1 (it has no memory)"),
        ("memory != 1", "memory != 1 (it has no memory)"),
        ("kind == android", 'kind == "android" (it has "cpu_host")'),
        ("virtual == true", "virtual == true (it has false)"),
        ("rack == 7", 'rack == 7 (it has "7")'),
        ("room == x", 'room == "x" (it has "north wing")'),
        ("virtual == 0", "virtual == 0 (it has false)"),
        ("cores == true", "cores == true (it has 32)"),
        ("kind > 5", 'kind > 5 (it has "cpu_host")'),
        ("isa == avx2", 'isa == "avx2" (it has several, to be asked by `has`: avx2 amx_bf16)'),
        ("isa != sse2", 'isa != "sse2" (it has several, to be asked by `has`: avx2 amx_bf16)'),
        ("isa has avx512", 'isa has "avx512" (it has avx2 amx_bf16)'),
        ("isa has 2", "isa has 2 (it has avx2 amx_bf16)"),
        ("kind has cpu", 'kind has "cpu" (it has "cpu_host")'),
        ("nothing has it", 'nothing has "it" (it has nothing)'),
        ("not any", "not any"),
        ("not (cores > 8 and any)", "not (cores > 8 and any)"),
        ("any and not kind == cpu_host", "not kind == cpu_host"),
        (
            "cores >= 64 and ghz < 2 and any",
            "cores >= 64 (it has 32), ghz < 2 (it has 2.5)",
        ),
        (
            "cores >= 64 or kind == android",
            'cores >= 64 (it has 32) and kind == "android" (it has "cpu_host")',
        ),
    ],
)
def test_what_excludes_a_device_is_said_clause_by_clause(text: str, said: str) -> None:
    assert objection(text) == said


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("any or any and not any", True),
        ("(any or any) and not any", False),
        ("not any or any", True),
        ("not (any or any)", False),
        ("not any and any", False),
        ("not not any", True),
        ("not not not any", False),
    ],
)
def test_not_binds_tighter_than_and_tighter_than_or(text: str, matches: bool) -> None:
    assert (objection(text) is None) is matches


TRUTHS = st.recursive(
    st.sampled_from([("any", True), ("not any", False), ("cores > 99", False)]),
    lambda inner: st.one_of(
        inner.map(lambda t: (f"not ({t[0]})", not t[1])),
        st.tuples(inner, inner).map(
            lambda p: (f"({p[0][0]}) and ({p[1][0]})", p[0][1] and p[1][1])
        ),
        st.tuples(inner, inner).map(lambda p: (f"({p[0][0]}) or ({p[1][0]})", p[0][1] or p[1][1])),
    ),
)


@given(TRUTHS)
def test_logic_is_that_of_python(case: tuple[str, bool]) -> None:
    text, expected = case
    assert (objection(text) is None) is expected


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("", "it ends too early"),
        ("   ", "it ends too early"),
        ("kind ==", "it ends too early"),
        ("kind == x and", "it ends too early"),
        ("(any", "it ends too early"),
        ("not", "it ends too early"),
        ("any any", "syntax error at column 5"),
        ("any)", "syntax error at column 4"),
        ("kind ~ 3", "syntax error at column 6"),
        ("kind = 3", "syntax error at column 6"),
        ("and", "syntax error at column 1"),
        ("8 == cores", "syntax error at column 1"),
        ("kind == 'x'", "syntax error at column 9"),
        ('kind == "x', "syntax error at column 9"),
        ("kind == any", "syntax error at column 9"),
        ("kind == x; rm -rf /", "syntax error at column 10"),
        ("isa has (avx2)", "syntax error at column 9"),
        ("käse == 1", "syntax error at column 2"),
        ("\ud800", "syntax error at column 1"),
        ("\x00", "syntax error at column 1"),
        ("__import__('os')", "syntax error at column 11"),
    ],
)
def test_what_is_not_understood_is_said_with_its_place(text: str, seen: str) -> None:
    with pytest.raises(SelectorInvalid) as caught:
        parse_selector(text)
    assert caught.value.tried == f"read device selector {text!r}"
    assert caught.value.seen == seen
    assert 'kind == "cpu_host"' in caught.value.remedy
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("word", ["and", "or", "not", "has", "any", "true", "false"])
def test_a_name_may_begin_like_a_keyword(word: str) -> None:
    for name in (f"{word}x", f"{word}-x", f"{word}.x", f"{word}_x", f"{word}7"):
        device = SERVER.model_copy(update={"labels": {name: "yes"}})
        assert parse_selector(f"{name} == yes").objection(device) is None


def test_parentheses_may_be_many() -> None:
    assert objection("(" * 10_000 + "any" + ")" * 10_000) is None
    assert objection(" or ".join(["cores > 99"] * (MAX_CLAUSES - 1) + ["any"])) is None


def test_clauses_may_not_be_as_many_as_one_likes() -> None:
    with pytest.raises(SelectorInvalid) as caught:
        parse_selector(" or ".join(["cores > 99"] * MAX_CLAUSES + ["any"]))
    assert caught.value.seen == f"it has {MAX_CLAUSES + 1} clauses; the limit is {MAX_CLAUSES}"
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "text", ["not " * 10_000 + "any", "(cores > 99 or " * 5_000 + "any" + ")" * 5_000]
)
def test_nesting_beyond_the_limit_is_refused_in_a_short_line(text: str) -> None:
    with pytest.raises(SelectorInvalid) as caught:
        parse_selector(text)
    assert caught.value.seen == f"its clauses nest more than {MAX_DEPTH} deep"
    assert len(str(caught.value)) < 500


def test_nesting_up_to_the_limit_is_understood() -> None:
    negations = MAX_DEPTH - 1
    assert objection("not " * negations + "any") is not None
    with pytest.raises(SelectorInvalid):
        parse_selector("not " * (negations + 1) + "any")


TOKENS = st.sampled_from(
    ["and", "or", "not", "has", "any", "(", ")", "==", "<", "cores", "isa", '"x"', "3", "true", "-"]
)


@settings(max_examples=300)
@given(st.one_of(st.text(), st.lists(TOKENS).map(" ".join), st.lists(TOKENS).map("".join)))
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        said = objection(text)
    except SelectorInvalid:
        return
    assert said is None or said


@given(st.text())
def test_any_label_can_be_selected_by_its_quoted_value(value: str) -> None:
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    device = SERVER.model_copy(update={"labels": {"label": value}})
    if "\n" in value:
        with pytest.raises(SelectorInvalid):
            parse_selector(f'label == "{quoted}"')
    else:
        assert parse_selector(f'label == "{quoted}"').objection(device) is None
