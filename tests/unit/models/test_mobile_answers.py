"""The text of an answer from word pieces, and its score, against the algorithms written plainly."""

from __future__ import annotations

import os
import random
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from string import punctuation
from typing import Any

import numpy as np
import pytest

from controller.contracts.mobile import Span
from models.mobile.answer_text import final_text, spelling
from models.mobile.datasets import messages
from models.mobile.datasets.squad import records
from models.mobile.metrics import score
from models.mobile.squad_score import exact, f1


def spelled(word: str) -> str:
    """BERT's basic tokens, one character at a time, for texts without ideographs."""
    tokens, fresh = [], True
    for letter in unicodedata.normalize("NFD", word.lower()):
        kind = unicodedata.category(letter)
        if kind == "Zs":
            fresh = True
        elif letter in punctuation or kind[0] == "P":
            tokens.append(letter)
            fresh = True
        elif kind not in ("Mn", "Cc", "Cf"):
            tokens = [*tokens, letter] if fresh else [*tokens[:-1], tokens[-1] + letter]
            fresh = False
    return " ".join(tokens)


def app_text(pieces: Sequence[str], words: Sequence[str]) -> str:
    """The app's answer, with the counters of its description."""
    said = " ".join(pieces).replace(" ##", "").replace("##", "")
    tokens, whole = " ".join(map(spelled, words)), " ".join(words)
    start = tokens.find(said)
    if start < 0:
        return whole
    count, wanted = 0, {}
    for place, letter in enumerate(tokens):
        if letter != " ":
            wanted[place] = count
            count += 1
    first, last = wanted[start], wanted[start + len(said) - 1]
    count, kept = 0, ""
    for letter in whole:
        if first <= count <= last and (letter != " " or kept):
            kept += letter
        count += letter != " "
    return kept.rstrip(" ") if count > last else whole


def app_f1(text: str, answers: Sequence[str]) -> float:
    """The app's F1: words at single spaces, each without punctuation, articles left empty."""

    def words(of: str) -> list[str]:
        named = ["" if w in ("a", "an", "the", "A", "An", "The") else w for w in of.split(" ")]
        return ["".join(c for c in w if c not in punctuation).lower() for w in named]

    best = 0.0
    for answer in answers:
        given, right = words(text), words(answer)
        common = sum(min(given.count(w), right.count(w)) for w in set(given))
        if common:
            precision, recall = common / len(given), common / len(right)
            best = max(best, 2 * precision * recall / (precision + recall))
    return best


@pytest.mark.parametrize(
    ("pieces", "words", "text"),
    [
        ("steve smith", "Steve Smith's", "Steve Smith"),
        ("nfc", "(NFC)", "NFC"),
        ("( nfc )", "(NFC)", "(NFC)"),
        ("24 – 10", "24–10 to", "24–10"),
        ("10", "24–10", "10"),
        ("em ##bed ##ding", "an Embedding, they", "Embedding"),
        ("##bed ##ding", "Embedding,", "bedding"),
        ("cafe", "Café's", "Café"),
        ("' s", "Café's", "'s"),
        ("$ 1 . 2 million", "of $1.2 million,", "$1.2 million"),
        ("santa clara , california", "Santa Clara, California.", "Santa Clara, California"),
        ("[UNK]", "語?", "語?"),
        ("東 京", "東京都", "東京"),
        ("b", "A\xa0B", "\xa0"),  # the app counts any other space as a letter
        ("missing", "Some words", "Some words"),
        ("##", "Some words", "Some words"),
    ],
)
def test_the_text_is_the_part_of_the_words_that_the_pieces_spell(
    pieces: str, words: str, text: str
) -> None:
    assert final_text(pieces.split(" "), words.split(" ")) == text


def test_generated_texts_are_cut_as_the_app_cuts_them() -> None:
    draw = random.Random(24)
    letters = "abcXYZ019éÜßñİ’–\u00ad\u0301.,'\"()$%-_`“”"
    for _ in range(3000):
        words = ["".join(draw.choices(letters, k=draw.randint(1, 7))) for _ in range(4)]
        assert [spelling(word) for word in words] == [spelled(word) for word in words]
        pieces = " ".join(map(spelled, words)).split(" ")
        first = draw.randrange(len(pieces))
        part = [p for p in pieces[first : draw.randint(first + 1, len(pieces))] if p]
        if part:
            part[-1:] = [part[-1][:2], *(f"##{letter}" for letter in part[-1][2:])]
            assert final_text(part, words) == app_text(part, words)


@pytest.mark.parametrize(
    ("text", "answers", "expected", "is_exact"),
    [
        ("Denver Broncos", ["Denver Broncos"], 1.0, True),
        ("denver broncos.", ["Carolina", "Denver Broncos"], 1.0, True),
        ("the Denver Broncos", ["Denver Broncos"], 0.8, True),  # 2 of 3 words, and 2 of 2
        ("the Broncos", ["a Broncos"], 1.0, True),
        ("Broncos", ["Denver Broncos"], 2 / 3, False),
        ("gold gold", ["gold"], 2 / 3, False),
        ("1 . 2", ["1.2"], 0.0, False),
        ("", ["gold"], 0.0, False),
    ],
)
def test_scores_by_hand(text: str, answers: list[str], expected: float, *, is_exact: bool) -> None:
    assert f1(text, answers) == pytest.approx(expected)
    assert exact(text, answers) is is_exact


def test_f1_of_generated_texts_is_the_app_s() -> None:
    draw = random.Random(7)
    words = ["a", "The", "THE", "gold", "Gold,", "-", "stone", "stone-age", "1.2"]
    for _ in range(2000):
        text, *answers = (" ".join(draw.choices(words, k=draw.randint(1, 5))) for _ in range(4))
        assert f1(text, answers) == pytest.approx(app_f1(text, answers))


@pytest.fixture(scope="module")
def features() -> list[dict[str, list[Any]]]:
    folder = os.environ.get("BENCHFARM_TEST_DATA")
    file = Path(folder or "") / "mobile/squad_eval_mini.tfrecord"
    if not folder or not file.exists():
        pytest.skip("no features of the suite: set BENCHFARM_TEST_DATA to a folder with mobile/")
    return [messages.example(record) for record in records(file.read_bytes())]


def truth_of(feature: dict[str, list[Any]], draw: random.Random) -> tuple[dict[str, Any], int, int]:
    """Return a truth whose text is spelled by the feature's pieces, and the answer's span."""
    tokens = [token.decode() for token in feature["tokens"]]
    first, word_of = tokens.index("[SEP]") + 1, list(feature["token_to_orig_map"])
    words: list[str] = [""] * (word_of[-1] + 1)
    for word, piece in zip(word_of, tokens[first:], strict=False):
        words[word] += piece.removeprefix("##")
    words = [word.title() if draw.random() < 0.4 else word for word in words]
    best = [n for n, most in enumerate(feature["token_is_max_context"]) if most]
    starts = [n for n in best if not tokens[first + n].startswith("##")]
    start = draw.choice([n for n in starts if tokens[first + n] not in punctuation])
    end = min(start + draw.randrange(4), len(word_of) - 1)
    while end > start and tokens[first + end] in punctuation:
        end -= 1
    pieces = tokens[first + start : first + end + 1]
    answer = app_text(pieces, words[word_of[start] : word_of[end] + 1])
    truth = {
        "id": feature["qas_id"][0].decode(),
        "tokens": tokens,
        "words": words,
        "first": first,
        "word_of": word_of,
        "best_context": list(feature["token_is_max_context"]),
        "answers": [answer, "nothing of the kind"],
    }
    return truth, first + start, first + end


def test_near_oracle_logits_on_the_suite_s_features_score_as_the_app_scores_them(
    features: list[dict[str, list[Any]]],
) -> None:
    """99 spans of 100 are the truth's own, and one is the next best, a piece too long; noise is
    below both. The app's F1 is the plain algorithm's on the same spans."""
    draw, noise = random.Random(3), np.random.default_rng(3)
    answers: dict[int, bytes] = {}
    truths, expected = [], []
    for number, feature in enumerate(features):
        truth, start, end = truth_of(feature, draw)
        end += number == 50
        logits = noise.normal(0, 1, (2, 384)).astype("<f4")
        logits[0, start], logits[1, end] = 12, 12
        low, word_of = truth["first"], truth["word_of"]
        words = truth["words"][word_of[start - low] : word_of[end - low] + 1]
        expected.append(app_f1(app_text(truth["tokens"][start : end + 1], words), truth["answers"]))
        answers[number] = logits.tobytes()
        truths.append(truth)
    app = sum(expected) / len(expected)
    assert app > 0.99
    found = score(Span(), answers, truths)
    assert found["F1"].value == pytest.approx(app, abs=1e-6)


def app_span(logits: np.ndarray, truth: dict[str, Any]) -> tuple[int, int] | None:
    """The app's search, without the token after the text, for which it reads beyond its words."""
    after = len(truth["tokens"]) - 1
    first = after - len(truth["word_of"])  # of the text, as the app counts it
    best, found = -np.inf, None
    starts, ends = (sorted(range(len(row)), key=lambda n: -row[n])[:20] for row in logits)
    for start in starts:
        for end in ends:
            if start <= end < min(after, start + 30) and start >= first:
                likelihood = logits[0, start] + logits[1, end]
                if truth["best_context"][start - first] and likelihood > best:
                    best, found = likelihood, (start, end)
    return found


def test_spans_of_noisy_logits_are_chosen_as_the_app_chooses_them(
    features: list[dict[str, list[Any]]],
) -> None:
    """A quarter of the answers is wrong: noise outbids the truth, also beside the text."""
    draw, noise = random.Random(3), np.random.default_rng(3)
    answers: dict[int, bytes] = {}
    truths, expected = [], []
    for number, feature in enumerate(features):
        truth, start, end = truth_of(feature, draw)
        logits = noise.normal(0, 4, (2, 384)).astype("<f4")
        logits[0, start] += 12
        logits[1, end] += 12
        span = app_span(logits, truth)
        assert span
        first, last = (truth["word_of"][n - truth["first"]] for n in span)
        text = app_text(truth["tokens"][span[0] : span[1] + 1], truth["words"][first : last + 1])
        expected.append(app_f1(text, truth["answers"]))
        answers[number] = logits.tobytes()
        truths.append(truth)
    app = sum(expected) / len(expected)
    assert 0.5 < app < 0.9
    assert score(Span(), answers, truths)["F1"].value == pytest.approx(app, abs=1e-6)
