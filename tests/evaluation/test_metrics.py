from allyouneed.evaluation.metrics import translation_metrics


def test_moses_scores_are_left_out_where_the_language_is_unknown() -> None:
    assert [metric.__name__ for metric in translation_metrics(None)] == ["bleu_13a", "chrf"]
    assert [metric.__name__ for metric in translation_metrics("de")] == [
        "bleu_13a",
        "bleu_lowercased_moses",
        "chrf",
    ]
