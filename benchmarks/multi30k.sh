#!/usr/bin/env bash
# Prepares Multi30k, trains the preset multi30k_tiny, and scores the average of its last ten checkpoints.
# Every finished step leaves its output in the folder; run it again, and it goes on with the first that is missing.
set -euo pipefail

out=${1:?the folder to work in}
corpus=${ALLYOUNEED_DATA:?set it to the folder that holds multi30k/train.en.gz and the others}/multi30k
test=$out/test_2016_flickr.de

if [[ ! -f $corpus/train.en.gz ]]; then
    echo "multi30k: $corpus/train.en.gz is not there; ALLYOUNEED_DATA must hold multi30k/train.en.gz" >&2
    exit 3
fi

mkdir -p "$out"
if [[ ! -e $out/data ]]; then
    allyouneed prepare "$out/data" --keep-repeats --vocab-size 10000 --source-language en --target-language de \
        --source "$corpus/train.en.gz" --target "$corpus/train.de.gz" \
        --valid-source "$corpus/val.en.gz" --valid-target "$corpus/val.de.gz"
fi
allyouneed train "$out/run" --data "$out/data" --preset multi30k_tiny --resume
if [[ ! -e $out/model ]]; then
    allyouneed average "$out/run" --last 10 --out "$out/model"
fi
if [[ ! -e $test ]]; then
    gunzip --stdout "$corpus/test_2016_flickr.en.gz" | allyouneed translate "$out/model" --beam-size 5 >"$test.part"
    mv "$test.part" "$test"
fi
allyouneed evaluate --hypotheses "$test" --reference "$corpus/test_2016_flickr.de.gz" --target-language de
