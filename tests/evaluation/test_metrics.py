from allyouneed.evaluation.metrics import translation_metrics


def test_moses_scores_are_left_out_where_the_language_is_unknown() -> None:
    plain = ["bleu_13a", "bleu_13a_lowercased", "bleu_intl", "bleu_intl_lowercased"]
    assert [metric.__name__ for metric in translation_metrics(None)] == [*plain, "chrf"]
    assert [metric.__name__ for metric in translation_metrics("de")] == [
        *plain,
        "bleu_moses",
        "bleu_lowercased_moses",
        "bleu_moses_compounds_split",
        "chrf",
    ]
