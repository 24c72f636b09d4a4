"""Every text of the lab's page exists in every language, none is empty, and its {names} are the same. Usage: texts_test.py lab/web"""
import json
import pathlib
import re
import sys
import unittest

WEB = pathlib.Path(sys.argv.pop(1))
LANGUAGES = ("en", "zh", "ru")
TEXTS = {name: json.loads((WEB / "text" / f"{name}.json").read_text(encoding="utf-8")) for name in LANGUAGES}
# What the page asks for: t('key') and {{key}}. Keys that are put together, t(`belief.${…}`), become patterns.
WHOLE = re.compile(r"\bt\('([^']+)'")
TOGETHER = re.compile(r"\bt\(`([^`]+)`")
TEMPLATE = re.compile(r"\{\{([\w.]+)\}\}")


def sources():
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(WEB.rglob("*.js")))


class Texts(unittest.TestCase):
    def test_there_is_a_file_for_each_language_and_no_other(self):
        self.assertEqual(sorted(path.stem for path in (WEB / "text").iterdir()), sorted(LANGUAGES))

    def test_all_languages_have_the_same_keys(self):
        for name in LANGUAGES[1:]:
            self.assertEqual(set(TEXTS["en"]) ^ set(TEXTS[name]), set(), name)

    def test_no_text_is_empty(self):
        for name, texts in TEXTS.items():
            for key, text in texts.items():
                self.assertTrue(isinstance(text, str) and text.strip(), f"{name}: {key}")

    def test_the_names_in_braces_are_the_same(self):
        for name in LANGUAGES[1:]:
            for key, text in TEXTS["en"].items():
                self.assertEqual(set(re.findall(r"\{(\w+)\}", text)), set(re.findall(r"\{(\w+)\}", TEXTS[name][key])), f"{name}: {key}")

    def test_languages_are_what_they_say(self):
        share = {name: lambda text, pattern=pattern: len(re.findall(pattern, text)) for name, pattern in (("zh", "[\u4e00-\u9fff]"), ("ru", "[\u0400-\u04ff]"))}
        for name, count in share.items():
            written = sum(count(text) > 0 for text in TEXTS[name].values())
            self.assertGreater(written, 0.9 * len(TEXTS[name]), name)

    def test_what_the_page_asks_for_is_there(self):
        page = (WEB / "index.html").read_text(encoding="utf-8")
        asked = set(WHOLE.findall(sources())) | set(TEMPLATE.findall(page)) - {"language", "numbers"}
        self.assertGreater(len(asked), 100)
        self.assertEqual(asked - set(TEXTS["en"]), set())

    def test_what_is_there_is_asked_for(self):
        text = sources()
        whole = set(re.findall(r"'([\w.-]+(?: [\w ]+)?)'", text)) | set(TEMPLATE.findall((WEB / "index.html").read_text(encoding="utf-8")))
        # The server asks for some: page.cc.
        whole |= {"head", "stage.scores", "stage.probabilities", "stage.concat", "stage.output"}
        patterns = [re.compile(re.sub(r"\\\$\\\{.*?\\\}", ".+", re.escape(pattern))) for pattern in TOGETHER.findall(text)]
        unused = [key for key in TEXTS["en"] if key not in whole and not any(pattern.fullmatch(key) for pattern in patterns)]
        self.assertEqual(unused, [])


if __name__ == "__main__":
    unittest.main()
