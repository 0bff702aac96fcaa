from allyouneed.evaluation.score import Score, format_scores, scores_to_json

SCORES = [Score("bleu_13a", 34.567, "nrefs:1|tok:13a"), Score("perplexity", 1234.5, "per:word-piece")]


def test_table_has_one_aligned_line_for_each_score() -> None:
    assert format_scores(SCORES).split("\n") == [
        "bleu_13a       34.57  nrefs:1|tok:13a",
        "perplexity   1234.50  per:word-piece",
    ]


def test_json_maps_each_name_to_score_and_signature() -> None:
    assert scores_to_json(SCORES) == {
        "bleu_13a": {"score": 34.567, "signature": "nrefs:1|tok:13a"},
        "perplexity": {"score": 1234.5, "signature": "per:word-piece"},
    }
