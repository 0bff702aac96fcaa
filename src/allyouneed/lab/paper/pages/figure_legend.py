"""What the figures in tables of results are called, and what they mean."""

import re

from allyouneed.lab.paper.experiment import AVERAGED
from allyouneed.lab.paper.training_rows import VALID

_LENGTHS = re.compile(r"(\w+?)_(\d+)_(\d+)")
_SIZES = re.compile(r"([a-z]+)_n(\d+)")
_LEGEND = {
    "perplexity": (
        "perplexity",
        "exp of the mean loss per sub-word, without label smoothing",
    ),
    "bleu": ("BLEU", "sacreBLEU (13a; characters if the text has no spaces) of beam search"),
    "parameters_millions": ("10⁶ parameters", "number of trained weights, in millions"),
    "rate": ("rate", "factor of the scale's learning rate that was best on the validation text"),
    "updates": ("updates", "number of updates within the budget"),
    "formula_flops": (
        "FLOPs by formula",
        "time × devices × sustained FLOPS, the paper's estimate; rough on a CPU, whose FLOPS are measured "
        "once",
    ),
    "tokens_per_second": ("tokens per second", "median target tokens per second in training"),
    "step_time_ratio": ("step time ratio", "time per target token divided by that of the first row"),
    "bracket_f1": (
        "bracket F1",
        "EVALB's F1 of labelled constituents; search is restricted to trees over the words",
    ),
    "exact_match": ("exact match", "percentage of sentences whose tree is entirely right"),
    "tag_accuracy": ("tag accuracy", "percentage of words with the right part-of-speech tag"),
    "well_formed": ("well formed", "percentage of outputs that are trees without repair"),
    "bracket_f1_unconstrained": (
        "F1 unconstrained",
        "bracket F1 with any output allowed, and repaired, as in the paper",
    ),
    "well_formed_unconstrained": (
        "well formed unconstrained",
        "percentage of outputs that are trees without repair, with any output allowed",
    ),
    "trees": ("trees", "number of training trees"),
    "silver_trees": ("silver trees", "number of training trees made by a parser"),
    "variance": ("variance", "variance of q.k of random queries and keys"),
    "qk_variance": ("q.k, variance", "variance of a head's q.k on the validation text, before scaling"),
    "qk_components": ("q and k, variance", "variance of a component of queries or keys"),
    "qk_independent": (
        "q.k if independent",
        "what the variance of q.k would be if components were independent",
    ),
    "qk_within_two": ("q.k within 2 sd", "% of q.k within two deviations of the mean; normal: 95.4"),
    "largest_weight": ("largest weight", "mean largest weight of a softmax over 32 keys"),
    "softmax_gradient": (
        "softmax gradient",
        "mean size of the gradient of that softmax at its largest weight, times 4: 1 at most",
    ),
    "error_of_shift": (
        "error of shift",
        "largest error of PE(pos + k) as a linear function of PE(pos), one matrix per k",
    ),
    "time_n": (
        "exponent of n, time",
        "exponent of the length n in the time of the core's forward and backward pass",
    ),
    "time_d": ("exponent of d, time", "exponent of the width d in that time"),
    "flops_n": (
        "exponent of n, FLOPs",
        "exponent of n in the core's FLOPs, as PyTorch counts them; with k = n, in those of the layer",
    ),
    "flops_d": ("exponent of d, FLOPs", "exponent of d in those FLOPs"),
    "memory_n": (
        "exponent of n, memory",
        "exponent of n in the peak memory of the core's tensors without weights and inputs",
    ),
    "layer_n": (
        "exponent of n, layer time",
        "exponent of n in the time of the whole layer, projections and normalisation too",
    ),
    "layer_d": ("exponent of d, layer time", "exponent of d in the time of the whole layer"),
    "sequential": ("sequential", "longest chain of dependent matrix products of a layer"),
    "sequential_n": ("sequential, growth", "its growth per additional position: 0 is O(1), 1 is O(n)"),
    "path": (
        "path",
        "maximum path length: rounds until every input position has changed every later output position",
    ),
    "cheaper_from": ("cheaper from", "n above which the core takes less time than full self-attention"),
    "cheaper_from_flops": (
        "cheaper from, FLOPs",
        "n above which the core needs fewer FLOPs than full self-attention",
    ),
    "ratio_shortest": (
        "FLOPs ratio, shortest n",
        "FLOPs of self-attention and a position-wise layer, divided by the row's, at the shortest n",
    ),
    "ratio_longest": ("FLOPs ratio, longest n", "the same at the longest n"),
    "longest_back": (
        "longest back",
        "largest n up to which n positions back are remembered; back, n = 8, and others: the accuracy in %",
    ),
    "longest_recall": (
        "longest recall",
        "largest n up to which one of n keys is found; recall, n = 8, and others: the accuracy in %",
    ),
    "longest_joint": (
        "longest joint",
        "largest n up to which four of n keys are found at once; joint, n = 8, and others: the accuracy in %",
    ),
    "layer": ("layer", "layer of the head that is drawn"),
    "head": ("head", "head that is drawn"),
    "weight": ("weight", "its weight on the words that the paper names"),
    "second_head": ("second head", "the next best head"),
    "second_weight": ("second weight", "its weight on these words"),
    "uniform": ("uniform", "weight of uniform attention on these words"),
    "second_uniform": ("second uniform", "weight of uniform attention on the words of the second head"),
}
"""Figure -> title, explanation."""


def figure_title(figure: str) -> str:
    """Title of a figure; `bleu_21_30` is the BLEU of 21 to 30 tokens, `back_n8` a task's figure at n = 8."""
    if numbers := _LENGTHS.fullmatch(figure):
        return f"{figure_title(numbers[1])}, {numbers[2]} to {numbers[3]} tokens"
    if sizes := _SIZES.fullmatch(figure):
        return f"{sizes[1]}, n = {sizes[2]}"
    for ending, title in ((VALID, "validation"), (AVERAGED, "averaged")):
        if figure.endswith(ending):
            return f"{figure_title(figure.removesuffix(ending))}, {title}"
    return _LEGEND[figure][0] if figure in _LEGEND else figure.replace("_", " ")


def figure_explanation(figure: str) -> str:
    """What a figure means; empty for one that is explained with another, and for unknown ones."""
    return _LEGEND[figure][1] if figure in _LEGEND else ""
