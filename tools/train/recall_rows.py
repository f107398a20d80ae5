"""Recall tasks assembled on the GPU from token tables: no CPU work per batch.

A row is filler text in which facts are stated at random places, some repeated later (raw form), and
which ends in chat turns that ask for some of them. Everything is vectorised over facts: a fact is
the concatenation of padded parts whose lengths differ.
"""

import torch

import facts as F_

MAX_ITEM = 44
# What ends the line before a statement; the first is the plain line break.
LINE_STARTS = ["\n", ":\n", ")\n", "):\n", ",\n", "\n\n", ".\n", "]\n", '"\n', "'\n", ")\n\n", ".\n\n", "}\n", '"""\n', '"""\n\n', "]\n\n"]


class Table:
    """Padded token lists: ids [n, width] (int64), length [n]."""

    def __init__(self, lists, device):
        width = max(1, max(len(x) for x in lists))
        self.ids = torch.zeros(len(lists), width, dtype=torch.int64)
        self.length = torch.tensor([len(x) for x in lists])
        for i, x in enumerate(lists):
            self.ids[i, : len(x)] = torch.tensor(x, dtype=torch.int64)
        self.ids, self.length = self.ids.to(device), self.length.to(device)

    def __getitem__(self, index):
        return self.ids[index], self.length[index]


def concatenate(parts, width=MAX_ITEM):
    """parts: list of (ids [m, w], length [m], flag) -> ids [m, width], length [m], flags [m, width].
    What does not fit is cut."""
    m, device = parts[0][0].shape[0], parts[0][0].device
    out = torch.zeros(m, width + 1, dtype=torch.int64, device=device)
    flags = torch.zeros(m, width + 1, dtype=torch.bool, device=device)
    at = torch.zeros(m, dtype=torch.int64, device=device)
    for ids, length, flag in parts:
        step = torch.arange(ids.shape[1], device=device)[None]
        where = torch.where(step < length[:, None], at[:, None] + step, width).clamp(max=width)
        out.scatter_(1, where, ids)
        if flag:
            flags.scatter_(1, where, True)
        at = at + length
    return out[:, :width], at.clamp(max=width), flags[:, :width]


def choose(options, index):
    """options: list of (ids, length) with equal first dimension; picks per row options[index[row]]."""
    width = max(ids.shape[1] for ids, _ in options)
    ids = torch.stack([torch.nn.functional.pad(i, (0, width - i.shape[1])) for i, _ in options])
    length = torch.stack([n for _, n in options])
    rows = torch.arange(ids.shape[1], device=ids.device)
    return ids[index, rows], length[index, rows]


class Recall:
    """Generator of recall rows. `tokens(text)` encodes without special tokens."""

    def __init__(self, tokenizer, device):
        self.device = device

        def tokens(text):
            return tokenizer.encode(text, add_special_tokens=False).ids

        def table(texts):
            return Table([tokens(t) for t in texts], device)

        words = F_.word_list(tokenizer)
        self.n_words = len(words)
        self.word = {"lead": table([" " + w for w in words]), "bare": table(words), "under": table(["_" + w for w in words]),
                     "paren": table(["(" + w for w in words]),
                     "upper": table([w.upper() for w in words]), "upper_lead": table([" " + w.upper() for w in words]),
                     "upper_under": table(["_" + w.upper() for w in words])}
        # All groups of one, two and three digits, with leading zeros.
        self.digits = [table([str(i).zfill(n) for i in range(10 ** n)]) for n in (1, 2, 3)]
        letters = "ABCDEFGHJKLMNPQRSTUVWXYZ"
        pairs = [a + b for a in letters for b in letters]
        self.pair = {"lead": table([" " + p for p in pairs]), "bare": table(pairs)}
        self.mark = {s: table([s]) for s in (" ", "-", ".", ",", "\n")}
        every = F_.PHRASE_STATEMENTS + F_.CODE_STATEMENTS + F_.SIGNATURES
        self.before = table([s[0] for s in every])
        self.between = table([s[1] for s in every])
        # A line break is one token with the symbols before it and the breaks after it: facts must be
        # recognised after every kind of line, and before empty lines too.
        self.after = table([s[2] for s in every] + [s[2] + "\n" for s in every])
        self.n_templates = len(every)
        self.line = table(LINE_STARTS)
        self.key_lead = torch.tensor([s[3] == "lead" for s in every], device=device)
        self.value_lead = torch.tensor([s[4] == "lead" for s in every], device=device)
        self.first = {"phrase": (0, len(F_.PHRASE_STATEMENTS)),
                      "code": (len(F_.PHRASE_STATEMENTS), len(F_.PHRASE_STATEMENTS) + len(F_.CODE_STATEMENTS)),
                      "signature": (len(every) - len(F_.SIGNATURES), len(every))}
        questions = F_.QUESTIONS + F_.SIGNATURE_QUESTIONS
        self.ask_before, self.ask_after = table([q[0] for q in questions]), table([q[1] for q in questions])
        self.n_questions = len(F_.QUESTIONS)
        self.opener = table(["<|assistant|></think>", "<|assistant|><think>"])
        self.thought = table([F_.THOUGHT[0]]), table([F_.THOUGHT[1] + "</think>"])
        self.user = table(["<|user|>"])
        self.header = torch.tensor(tokens("[gMASK]<sop><|user|>"), device=device)
        self.raw_header = torch.tensor(tokens("[gMASK]<sop>"), device=device)

    def randint(self, low, high, m):
        return torch.randint(low, high, (m,), device=self.device)

    def one(self, table, m):
        return table[torch.zeros(m, dtype=torch.int64, device=self.device)]

    def keys(self, m, kind, held_back=False):
        """kind [m]: 0 phrase, 1 code, 2 signature. Returns lead and bare forms as (ids, length)."""
        a, b = self.randint(0, self.n_words, m), self.randint(0, self.n_words, m)
        c = self.randint(0, self.n_words, m)
        for _ in range(10):  # i + 1 moves the residue by 17 mod 10: three steps at most leave the set
            wrong = F_.is_held_back_pair(a, b) != held_back
            b = torch.where(wrong, (b + 1) % self.n_words, b)
        w = self.word
        three = torch.rand(m, device=self.device) < 0.3

        def maybe(part):
            return part[0], part[1] * three

        phrase = concatenate([(*w["lead"][a], 0), (*w["lead"][b], 0)], 14)[:2]
        phrase_bare = concatenate([(*w["bare"][a], 0), (*w["lead"][b], 0)], 14)[:2]
        snake = concatenate([(*w["bare"][a], 0), (*w["under"][b], 0), (*maybe(w["under"][c]), 0)], 14)[:2]
        snake_lead = concatenate([(*w["lead"][a], 0), (*w["under"][b], 0), (*maybe(w["under"][c]), 0)], 14)[:2]
        upper = concatenate([(*w["upper"][a], 0), (*w["upper_under"][b], 0)], 14)[:2]
        upper_lead = concatenate([(*w["upper_lead"][a], 0), (*w["upper_under"][b], 0)], 14)[:2]
        loud = (torch.rand(m, device=self.device) < 0.25) & (kind == 1)
        index = torch.where(loud, 2, (kind > 0).long())
        return choose([phrase, snake_lead, upper_lead], index), choose([phrase_bare, snake, upper], index)

    def values(self, m, kind):
        """Values as lead and bare forms (ids, length); signatures get parameter lists."""
        d = self.digits
        extra = torch.randint(0, 4, (m,), device=self.device)  # four to seven digits
        groups = [(*d[2][self.randint(0, 1000, m)], 0)]
        for n, table in enumerate(d, start=1):
            ids, length = table[self.randint(0, 10 ** n, m)]
            groups.append((ids, length * (extra.clamp(max=2) == n - 1), 0))
        ids, length = d[0][self.randint(0, 10, m)]
        groups.append((ids, length * (extra == 3), 0))
        space = (*self.one(self.mark[" "], m), 0)
        number, number_lead = concatenate(groups, 14)[:2], concatenate([space] + groups, 14)[:2]

        w = [self.randint(0, self.n_words, m) for _ in range(3)]
        third = torch.rand(m, device=self.device) < 0.4
        tail = [(*self.word["lead"][w[1]], 0), (self.word["lead"][w[2]][0], self.word["lead"][w[2]][1] * third, 0)]
        text = concatenate([(*self.word["bare"][w[0]], 0)] + tail, 14)[:2]
        text_lead = concatenate([(*self.word["lead"][w[0]], 0)] + tail, 14)[:2]

        p = self.randint(0, len(self.pair["bare"].length), m)
        tail = [(*self.one(self.mark["-"], m), 0), (*d[2][self.randint(0, 1000, m)], 0), (*d[0][self.randint(0, 10, m)], 0)]
        code = concatenate([(*self.pair["bare"][p], 0)] + tail, 14)[:2]
        code_lead = concatenate([(*self.pair["lead"][p], 0)] + tail, 14)[:2]

        dot = (*self.one(self.mark["."], m), 0)
        dotted_parts = [(*d[1][self.randint(10, 100, m)], 0), dot, (*d[0][self.randint(1, 10, m)], 0), dot,
                        (*d[1][self.randint(10, 100, m)], 0)]
        dotted, dotted_lead = concatenate(dotted_parts, 14)[:2], concatenate([space] + dotted_parts, 14)[:2]

        comma = (*self.one(self.mark[","], m), 0)
        more = [comma, (*self.word["lead"][w[1]], 0), (comma[0], comma[1] * third, 0),
                (self.word["lead"][w[2]][0], self.word["lead"][w[2]][1] * third, 0)]
        parameters = concatenate([(*self.word["bare"][w[0]], 0)] + more, 14)[:2]
        parameters_lead = concatenate([(*self.word["paren"][w[0]], 0)] + more, 14)[:2]
        roll = torch.rand(m, device=self.device)
        index = (roll > 0.5).long() + (roll > 0.7).long() + (roll > 0.9).long()
        index = torch.where(kind == 2, 4, index)
        return (choose([number_lead, text_lead, code_lead, dotted_lead, parameters_lead], index),
                choose([number, text, code, dotted, parameters], index))

    def statement(self, kind, keys, values, template=None):
        """Statement tokens with the value flagged."""
        m = kind.shape[0]
        if template is None:
            low = torch.tensor([self.first[k][0] for k in ("phrase", "code", "signature")], device=self.device)[kind]
            high = torch.tensor([self.first[k][1] for k in ("phrase", "code", "signature")], device=self.device)[kind]
            template = low + (torch.rand(m, device=self.device) * (high - low)).long()
        key = choose([keys[1], keys[0]], self.key_lead[template].long())
        value = choose([values[1], values[0]], self.value_lead[template].long())
        start = self.randint(0, len(LINE_STARTS), m) * (torch.rand(m, device=self.device) < 0.6)
        line = (*self.line[start], 0)
        ending = template + self.n_templates * (torch.rand(m, device=self.device) < 0.3)
        return concatenate([line, (*self.before[template], 0), (*key, 0), (*self.between[template], 0), (*value, 1),
                            (*self.after[ending], 0)])

    def question(self, kind, keys, values, think):
        """Question turn and its answer, flagged; ends with the next <|user|>."""
        m = kind.shape[0]
        q = torch.where(kind == 2, self.n_questions + self.randint(0, len(F_.SIGNATURE_QUESTIONS), m),
                        self.randint(0, self.n_questions, m))
        zero = torch.zeros(m, dtype=torch.int64, device=self.device)

        def if_think(part):
            return part[0], part[1] * think

        return concatenate([
            (*self.ask_before[q], 0), (*keys[0], 0), (*self.ask_after[q], 0), (*self.opener[think.long()], 0),
            (*if_think(self.thought[0][zero]), 1), (*if_think(keys[0]), 1), (*if_think(self.thought[1][zero]), 1),
            (*values[1], 1), (*self.user[zero], 1)], 72)

    def rows(self, filler, n_facts, n_repeats, n_questions, alias=False, held_back=False, think_share=0.15):
        """filler [R, T] is overwritten. Returns ids [R, T], answer flags [R, T], and the start of the
        chat tail [R]."""
        r, t = filler.shape
        dev = self.device
        m = r * n_facts
        kind = (torch.rand(r, 1, device=dev) * 2.6).long().clamp(max=2).expand(r, n_facts).reshape(-1)
        mixed = torch.rand(m, device=dev) < 0.3
        kind = torch.where(mixed, (torch.rand(m, device=dev) * 2.4).long(), kind)
        keys, values = self.keys(m, kind, held_back), self.values(m, kind)
        stated = values
        if alias:
            # Every second fact is stated as equal to the key before it and answered with its value.
            odd = torch.arange(m, device=dev) % 2 == 1
            odd &= torch.arange(m, device=dev) % n_facts != 0
            kind = torch.where(odd | odd.roll(-1), 1, kind)
            keys = self.keys(m, kind, held_back)
            values = self.values(m, kind)
            previous = (torch.arange(m, device=dev) - odd.long())
            values = tuple((ids[previous], length[previous]) for ids, length in values)
            lead, bare = keys
            stated = (choose([values[0], (lead[0][previous], lead[1][previous])], odd.long()),
                      choose([values[1], (bare[0][previous], bare[1][previous])], odd.long()))
        st = self.statement(kind, keys, stated)
        st = (st[0].view(r, n_facts, -1), st[1].view(r, n_facts), torch.zeros_like(st[2]).view(r, n_facts, -1))

        def pick(n):
            """n facts per row, distinct while there are enough."""
            order = torch.rand(r, n_facts, device=dev).argsort(1)
            order = order.repeat(1, n // n_facts + 1)[:, :n]
            flat = (order + torch.arange(r, device=dev)[:, None] * n_facts).reshape(-1)
            take = lambda form: (form[0][flat], form[1][flat])
            return order, kind[flat], tuple(take(k) for k in keys), tuple(take(v) for v in values)

        priority = torch.rand(r, n_facts, device=dev)
        if n_repeats:
            order, k2, key2, value2 = pick(n_repeats)
            rp = self.statement(k2, key2, value2)
            start = torch.gather(priority, 1, order)
            later = start + (1 - start) * torch.rand(r, n_repeats, device=dev)
            items = [torch.cat([a, b.view(r, n_repeats, *b.shape[1:])], 1) for a, b in zip(st, rp)]
            priority = torch.cat([priority, later], 1)
        else:
            items = list(st)
        order = priority.argsort(1)
        ids, length, flags = items
        ids = torch.gather(ids, 1, order[..., None].expand_as(ids))
        flags = torch.gather(flags, 1, order[..., None].expand_as(flags))
        length = torch.gather(length, 1, order)

        out = torch.cat([filler, filler[:, :1]], 1)  # one dump column
        answer = torch.zeros(r, t + 1, dtype=torch.bool, device=dev)
        if n_questions:
            _, k3, key3, value3 = pick(n_questions)
            think = (torch.rand(r, 1, device=dev) < think_share).expand(r, n_questions).reshape(-1)
            q = self.question(k3, key3, value3, think)
            q = [x.view(r, n_questions, *x.shape[1:]) for x in q]
            tail = q[1].sum(1)
        else:
            tail = torch.zeros(r, dtype=torch.int64, device=dev)
        header = self.header if n_questions else self.raw_header
        body = t - tail - len(header)
        free = (body - length.sum(1)).clamp(min=0)
        cuts = (torch.rand(r, length.shape[1], device=dev).sort(1).values * (free[:, None] + 0.999)).long()
        at = len(header) + cuts + length.cumsum(1) - length

        def put(ids, length, flags, at, limit):
            step = torch.arange(ids.shape[2], device=dev)
            where = at[..., None] + step
            where = torch.where((step < length[..., None]) & (where < limit[:, None, None]), where, t)
            out.scatter_(1, where.view(r, -1), ids.reshape(r, -1))
            answer.scatter_(1, where.view(r, -1), flags.reshape(r, -1))

        # What the row has no room for is cut; a cut statement can leave a question without its fact,
        # so callers choose counts that fit (curriculum.py).
        put(ids, length, flags, at, t - tail)
        if n_questions:
            # Mostly the document ends with a line break before the first question.
            last = (t - tail - 1)[:, None]
            broken = torch.rand(r, 1, device=dev) < 0.7
            out.scatter_(1, last, torch.where(broken, self.mark["\n"].ids[:1, :1], torch.gather(out, 1, last)))
            put(*q, (t - tail)[:, None] + q[1].cumsum(1) - q[1], torch.full_like(tail, t))
        out[:, : len(header)] = header
        answer[:, t] = False
        return out[:, :t], answer[:, :t], t - tail

    def copies(self, filler, span, vocab_limit):
        """Random token spans that occur twice; the second time counts (but its first two tokens)."""
        r, t = filler.shape
        dev = self.device
        source = (torch.rand(r, device=dev) * (t - 2 * span - 3)).long() + 2
        target = source + span + (torch.rand(r, device=dev) * (t - source - 2 * span).float()).long()
        step = torch.arange(span, device=dev)[None]
        text = torch.gather(filler, 1, source[:, None] + step)
        noise = torch.randint(0, vocab_limit, (r, span), device=dev)
        text = torch.where(torch.rand(r, 1, device=dev) < 0.6, noise, text)
        out = filler.scatter(1, source[:, None] + step, text).scatter(1, target[:, None] + step, text)
        out[:, : len(self.raw_header)] = self.raw_header
        answer = torch.zeros(r, t, dtype=torch.bool, device=dev)
        answer.scatter_(1, target[:, None] + step, (step >= 2).expand(r, span))
        return out, answer
