"""Checks scripts/austen.py on a package that this test writes: R's format, paragraphs, and what is held out."""
import pathlib
import struct
import sys
import tempfile
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import austen


def integer(number):
    return struct.pack(">i", number)


def string(text):
    return integer(9 | 1 << 15) + integer(len(text.encode())) + text.encode()  # UTF-8


def strings(texts):
    return integer(16) + integer(len(texts)) + b"".join(map(string, texts))


def names(texts):
    """A pair list whose tag is the symbol `names`."""
    return integer(2 | 1024) + integer(1) + string("names") + strings(texts) + integer(254)


def named_list(entries):
    return integer(19 | 512) + integer(len(entries)) + b"".join(entries.values()) + names(list(entries))


def serialized(item, version=2):
    header = b"X\n" + integer(version) + integer(0x040000) + integer(0x020300)
    return header + (integer(5) + b"UTF-8" if version == 3 else b"") + item


def write_package(folder, texts, method=1):
    database, places = b"", {}
    for name, lines in texts.items():
        data = serialized(strings(lines), version=3)
        chunk = integer(len(data)) + zlib.compress(data)
        places[name] = integer(13) + integer(2) + integer(len(database)) + integer(len(chunk))
        database += chunk
    index = named_list({"variables": named_list(places), "compressed": integer(13) + integer(1) + integer(method)})
    (folder / "Rdata.rdb").write_bytes(database)
    (folder / "Rdata.rdx").write_bytes(zlib.compress(serialized(index)))


class Austen(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.work.name)
        self.texts = {name: [name.upper(), "", "One line,", f"caf\u00e9 {i}."] for i, name in enumerate(austen.NOVELS)}

    def tearDown(self):
        self.work.cleanup()

    def test_novels_come_in_their_order(self):
        write_package(self.folder, dict(reversed(self.texts.items())))
        read = austen.novels(self.folder)
        self.assertEqual(read, self.texts)
        self.assertEqual(list(read), austen.NOVELS)

    def test_what_is_not_the_package_is_refused(self):
        self.texts.pop("emma")
        write_package(self.folder, self.texts)
        with self.assertRaisesRegex(ValueError, "emma"):
            austen.novels(self.folder)
        write_package(self.folder, self.texts, method=3)
        with self.assertRaisesRegex(ValueError, "zlib"):
            austen.novels(self.folder)
        for data in (b"A\n", serialized(strings(["text"]))[:-1], serialized(integer(6))):
            with self.assertRaises(ValueError):
                austen.RObjects(data).item()

    def test_a_paragraph_is_a_line(self):
        self.assertEqual(austen.as_text(["TITLE", "", "", "  One   line,", "and more.", " ", "Next."]),
                         "TITLE\nOne line, and more.\nNext.\n")

    def test_the_end_of_every_novel_is_held_out(self):
        texts = {name: "".join(f"{name} {i}\n" for i in range(100)) for name in "ab"}
        text = austen.split(texts)
        self.assertEqual(sorted(text.split("\n")), sorted("".join(texts.values()).split("\n")))
        held_out = text[-int(len(text) * austen.CONFIG["held_out"]):]
        self.assertIn("a 99\n", held_out)
        self.assertIn("b 99\n", held_out)
        self.assertNotIn("a 90\n", held_out)


if __name__ == "__main__":
    unittest.main()
