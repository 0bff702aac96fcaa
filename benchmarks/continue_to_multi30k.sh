#!/usr/bin/env bash
# Trains a model on Tatoeba (en-de, the preset multi30k_tiny, an hour), continues it on Multi30k for 15 minutes with and
# without replay of Tatoeba, and scores all three on the test sets of both corpora, a line of JSON each.
# Every finished step leaves its output in the folder; run it again, and it goes on with the first that is missing.
set -euo pipefail

out=${1:?the folder to work in}
data=${ALLYOUNEED_DATA:?set it to the folder that holds multi30k/ and tatoeba/}
captions=$data/multi30k
everyday=$data/tatoeba/en-de

for file in "$captions/train.en.gz" "$everyday.train.tsv.gz"; do
    if [[ ! -f $file ]]; then
        echo "continue_to_multi30k: $file is not there; ALLYOUNEED_DATA must hold multi30k/ and tatoeba/" >&2
        exit 3
    fi
done

mkdir -p "$out"
languages=(--source-language en --target-language de)
if [[ ! -e $out/tatoeba ]]; then
    allyouneed prepare "$out/tatoeba" --vocab-size 10000 "${languages[@]}" \
        --pairs "$everyday.train.tsv.gz" --valid-pairs "$everyday.dev.tsv.gz"
fi
allyouneed train "$out/first" --data "$out/tatoeba" --preset multi30k_tiny --resume
if [[ ! -e $out/model-first ]]; then
    allyouneed average "$out/first" --last 10 --out "$out/model-first"
fi

if [[ ! -e $out/multi30k ]]; then
    allyouneed prepare "$out/multi30k" --keep-repeats --tokenizer-from "$out/model-first" \
        --source "$captions/train.en.gz" --target "$captions/train.de.gz" \
        --valid-source "$captions/val.en.gz" --valid-target "$captions/val.de.gz"
fi
recipe=(training.budget_seconds=900 training.learning_rate_factor=0.5 training.warmup_steps=400)
allyouneed train "$out/alone" --data "$out/multi30k" --init-from "$out/model-first" --resume --set "${recipe[@]}"
allyouneed train "$out/replayed" --data "$out/multi30k" --init-from "$out/model-first" --resume \
    --replay "$out/tatoeba" --replay-share 0.5 --set "${recipe[@]}"
for run in alone replayed; do
    if [[ ! -e $out/model-$run ]]; then
        allyouneed average "$out/$run" --last 4 --out "$out/model-$run"
    fi
done

for model in first alone replayed; do
    for test in multi30k tatoeba; do
        files=(--pairs "$everyday.test.tsv.gz")
        if [[ $test == multi30k ]]; then
            files=(--source "$captions/test_2016_flickr.en.gz" --reference "$captions/test_2016_flickr.de.gz")
        fi
        scores=$out/$model-on-$test.json
        if [[ ! -e $scores ]]; then
            allyouneed evaluate "$out/model-$model" "${files[@]}" --beam-size 5 --target-language de --json >"$scores.part"
            mv "$scores.part" "$scores"
        fi
        echo "{\"model\": \"$model\", \"test\": \"$test\", \"scores\": $(cat "$scores")}"
    done
done
