"""Tests of the training code: python3 -m unittest discover -s tools/train -p '*_test.py' (needs torch, tokenizers)."""

import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
MODEL = pathlib.Path(__file__).resolve().parents[2] / "models" / "baton-mini"

try:
    import torch
    from tokenizers import Tokenizer
except ImportError:
    torch = None

if torch is not None:
    import dialogues
    import evaluate
    import recall_rows
    from model import Config, Mode, Model, select
    from train import exact_runs


def small_config():
    config = Config.load(MODEL / "config.json")
    config.vocab_size, config.hidden_size, config.intermediate_size, config.moe_intermediate_size = 64, 32, 48, 16
    config.q_lora_rank, config.kv_lora_rank, config.index_topk = 24, 32, 8
    config.qk_nope_head_dim, config.qk_rope_head_dim, config.v_head_dim, config.index_head_dim = 8, 8, 8, 16
    return config


@unittest.skipIf(torch is None, "torch or tokenizers is not installed")
class Rows(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
        cls.recall = recall_rows.Recall(cls.tokenizer, "cpu")

    def rows(self, **options):
        torch.manual_seed(options.pop("seed", 0))
        filler = torch.full((6, 512), self.tokenizer.encode(" x", add_special_tokens=False).ids[0])
        return self.recall.rows(filler, 8, 4, 5, **options)

    def text(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=False)

    def test_assembled_tokens_are_those_of_the_text(self):
        ids, _, _ = self.rows()
        for row in ids.tolist():
            again = self.tokenizer.encode(self.text(row), add_special_tokens=False).ids
            # A line break drawn behind filler may join the filler's space: nothing else may differ.
            self.assertLess(abs(len(again) - len(row)), 12)

    def test_every_chat_answer_is_stated_before_it_is_asked_for(self):
        ids, flags, tail = self.rows(think_share=0.0)
        for row, marks, start in zip(ids.tolist(), flags.tolist(), tail.tolist()):
            before, turns = self.text(row[:start]), self.text(row[start:]).split("<|user|>")[:-1]
            self.assertEqual(len(turns), 5)
            for turn in turns:
                self.assertIn(turn.split("</think>")[1], before)
            self.assertTrue(any(marks[start:]))

    def test_held_back_keys_never_meet_training_keys(self):
        words = recall_rows.F_.word_list(self.tokenizer)
        a, b = torch.arange(200).repeat_interleave(200), torch.arange(200).repeat(200)
        share = recall_rows.F_.is_held_back_pair(a, b).float().mean().item()
        self.assertAlmostEqual(share, 0.1, delta=0.01)
        self.assertEqual(len(words), len(set(words)))

    def test_dialogues_answer_every_call_and_repeat_no_role(self):
        rng = random.Random(4)
        for _ in range(50):
            text = "".join(part for part, _ in dialogues.dialogue(rng))
            self.assertTrue(text.startswith("[gMASK]<sop>"))
            self.assertEqual(text.count("<tool_call>") - ("Call one as" in text), text.count("<tool_response>"))
            self.assertNotIn("<|user|><|user|>", text)


@unittest.skipIf(torch is None, "torch or tokenizers is not installed")
class Mathematics(unittest.TestCase):
    def test_the_gathered_form_equals_the_masked_form(self):
        torch.manual_seed(1)
        model = Model(small_config()).eval()
        ids = torch.randint(0, 64, (1, 40))
        masked = model.trunk(ids, torch.arange(40)[None], Mode(torch.float32, sparse=True))[0]
        gathered = evaluate.Long(model, torch.float32).run(ids[0], "bf16")
        self.assertLess((masked - gathered).abs().max().item(), 1e-4)
        dense = model.trunk(ids, torch.arange(40)[None], Mode(torch.float32))[0]
        self.assertLess((masked - dense)[:8].abs().max().item(), 1e-5)
        self.assertGreater((masked - dense)[8:].abs().max().item(), 1e-4)

    def test_a_selection_is_causal_and_holds_topk_tokens(self):
        torch.manual_seed(2)
        mask = select(torch.randn(2, 50, 2, 8), torch.randn(2, 50, 8), torch.rand(2, 50, 2), 16, chunk=20)
        self.assertEqual(mask.sum(-1)[0].tolist(), [min(i + 1, 16) for i in range(50)])
        self.assertFalse((mask & ~torch.ones(50, 50).tril().bool()).any())

    def test_a_sequence_does_not_depend_on_what_follows(self):
        torch.manual_seed(3)
        model = Model(small_config()).eval()
        ids = torch.randint(0, 64, (1, 30))
        other = ids.clone()
        other[0, 20:] = 1
        run = lambda x: model.trunk(x, torch.arange(30)[None], Mode(torch.float32, sparse=True))[0][:20]
        self.assertLess((run(ids) - run(other)).abs().max().item(), 1e-5)

    def test_the_indexer_learns_but_does_not_steer(self):
        torch.manual_seed(4)
        model = Model(small_config())
        loss = model.trunk(torch.randint(0, 64, (1, 30)), torch.arange(30)[None], Mode(torch.float32),
                           torch.arange(5, 30)[None])[1]
        loss.backward()
        moved = {n.split(".")[-1] for n, p in model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
        self.assertEqual(moved, {"wq_b", "wk", "k_norm_w", "k_norm_b", "weights_proj"})

    def test_answers_count_only_as_a_whole(self):
        flags = torch.tensor([[0, 1, 1, 0, 1, 0], [1, 1, 0, 0, 0, 1]]).bool()
        right = torch.tensor([[0, 1, 1, 0, 0, 0], [1, 0, 1, 1, 1, 1]]).bool()
        self.assertAlmostEqual(exact_runs(right, flags), 0.5)


@unittest.skipIf(torch is None, "torch or tokenizers is not installed")
class RowFormats(unittest.TestCase):
    def test_e2m1_takes_ties_to_the_even_code(self):
        x = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -0.75, 7.0])
        self.assertEqual(evaluate.e2m1(x).tolist(), [0, 1, 1, 2, 2, 4, 4, -1, 6])

    def test_nvfp4_scales_are_rounded_up_to_e4m3(self):
        table = torch.arange(0, 127, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
        x = torch.rand(5000) * 10 ** (torch.rand(5000) * 5 - 3)
        self.assertTrue(torch.equal(evaluate.round_up_e4m3(x), table[torch.searchsorted(table, x.clamp(max=448))]))

    def test_fp8_rows_scale_by_powers_of_two_and_keep_the_rope_part(self):
        latent, rope, key = torch.randn(4, 512) * 20, torch.randn(4, 64), torch.randn(4, 128)
        got, got_rope, got_key = evaluate.fp8_rows(latent, rope, key)
        self.assertTrue(torch.equal(got_rope, rope))
        self.assertLess(((got - latent).abs() / latent.abs().clamp(min=0.5)).max().item(), 0.07)
        again = evaluate.fp8_rows(got, got_rope, got_key)[0]
        self.assertTrue(torch.equal(again, got))


if __name__ == "__main__":
    unittest.main()
