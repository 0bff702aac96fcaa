"""One small corpus for all tests of the demo grammar."""

import pytest

from allyouneed.lab.demo.grammar import DemoCorpus, DemoPair, generate_demo_corpus


@pytest.fixture(scope="session")
def corpus() -> DemoCorpus:
    return generate_demo_corpus(num_train=6000, num_valid=200, num_test=300)


@pytest.fixture(scope="session")
def pairs(corpus: DemoCorpus) -> list[DemoPair]:
    return [*corpus.train, *corpus.valid, *corpus.test]
