// Beam search (paper 6.1) as in `inference/plain_search.py`, and drawing with a temperature.

const ENDS = 2, NEVER = new Set([0, 1, 3]); // the end symbol; padding, start, sentinel

const PENALTIES = {
  gnmt: (length, alpha) => ((5 + length) / 6) ** alpha,
  average: (length) => length,
  none: () => 1,
};

/** The `count` most probable continuations of hypotheses; ties go to the lowest hypothesis, then the lowest id. */
function continuations(live, count) {
  const found = [];
  for (const begun of live) {
    begun.logProbs.forEach((logProb, token) => {
      const score = begun.score + logProb;
      if (NEVER.has(token) || (found.length === count && score <= found.at(-1).score)) return;
      const place = found.findLastIndex((other) => other.score >= score) + 1;
      found.splice(place, 0, { begun, token, logProb, score });
      if (found.length > count) found.pop();
    });
  }
  return found;
}

const written = ({ begun, token, logProb }) => ({ ids: [...begun.ids, token], logProbs: [...begun.each, logProb] });

const longest = (source, search) =>
  Math.min(source.length + 1 + search.max_extra_tokens, search.max_length ?? Infinity);

/** The best output: its ids, the log-probability of each (the end symbol's too), and its score. */
export function beamSearch(network, source, search) {
  const memory = network.encode(source), { beam_size: beam } = search;
  const most = longest(source, search);
  const penalty = (length) => PENALTIES[search.length_normalization](length, search.length_penalty);
  let live = [{ ids: [], each: [], score: 0, ...network.step(memory, network.begin()) }];
  let best = null, ended = 0;
  for (let length = 1; length <= most; length++) {
    const candidates = continuations(live, beam > 1 ? 2 * beam : 1);
    candidates.forEach((found, rank) => {
      if (found.token !== ENDS) return;
      if (rank < beam) ended++;
      const score = found.score / penalty(length);
      if (!best || score > best.score) best = { ids: found.begun.ids, logProbs: written(found).logProbs, score };
    });
    const goOn = candidates.filter(({ token }) => token !== ENDS).slice(0, beam);
    const cannotWin = best && (!goOn.length || goOn[0].score / penalty(most) <= best.score);
    if (!goOn.length || cannotWin || (search.early_stopping && ended >= beam)) return best;
    if (length === most) return best ?? { ...written(goOn[0]), score: goOn[0].score / penalty(most) };
    live = goOn.map((found) => {
      const { ids, logProbs: each } = written(found);
      return { ids, each, score: found.score, ...network.step(memory, found.begun.state, found.token) };
    });
  }
  return best;
}

/** An output whose tokens are drawn from the distribution `softmax(log p / temperature)`. */
export function drawOutput(network, source, search, temperature, random = Math.random) {
  const memory = network.encode(source), most = longest(source, search);
  const ids = [], each = [];
  let { logProbs, state } = network.step(memory, network.begin());
  while (ids.length < most) {
    const largest = logProbs.reduce((a, b) => Math.max(a, b));
    const shares = logProbs.map((logProb, token) => (NEVER.has(token) ? 0 : Math.exp((logProb - largest) / temperature)));
    let left = random() * shares.reduce((sum, share) => sum + share, 0);
    const token = shares.findIndex((share) => (left -= share) < 0);
    each.push(logProbs[token]);
    if (token === ENDS) break;
    ids.push(token);
    ({ logProbs, state } = network.step(memory, state, token));
  }
  return { ids, logProbs: each, score: each.reduce((sum, logProb) => sum + logProb, 0) };
}
