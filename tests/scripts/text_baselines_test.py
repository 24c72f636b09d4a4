"""Checks scripts/text_baselines.py on texts whose entropy is known."""
import math
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import text_baselines


class TextBaselines(unittest.TestCase):
    def test_a_repeated_text_costs_next_to_nothing(self):
        beginning, end = text_baselines.split(b"the cat sat on the mat. " * 1000, 0.05)
        for name, bits in text_baselines.BASELINES.items():
            self.assertLess(bits(beginning, end), 0.1, name)

    def test_noise_costs_what_it_holds(self):
        source = random.Random(1)
        beginning, end = text_baselines.split(bytes(source.randrange(256) for _ in range(40000)), 0.1)
        for name, bits in text_baselines.BASELINES.items():
            self.assertGreater(bits(beginning, end), 7.9, name)
            self.assertLess(bits(beginning, end), 9, name)  # to guess from few bytes costs a little more than not to

    def test_counts_are_mixed_as_the_formula_says(self):
        order_0 = (1 + 4 / 256) / (6 + 4)            # b once among six bytes of four kinds
        behind_a = (1 + 2 * order_0) / (2 + 2)       # behind a: b once, c once
        self.assertAlmostEqual(text_baselines.order_model(1)(b"abacda", b"b"), -math.log2(behind_a), places=12)
        behind_d = (1 + 4 / 256) / (5 + 4)           # nothing was seen behind d
        self.assertAlmostEqual(text_baselines.order_model(1)(b"abacd", b"b"), -math.log2(behind_d), places=12)

    def test_held_out_is_what_training_holds_out(self):
        self.assertEqual([len(part) for part in text_baselines.split(b"x" * 109, 0.05)], [104, 5])


if __name__ == "__main__":
    unittest.main()
