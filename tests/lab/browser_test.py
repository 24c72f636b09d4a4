"""The lab's page in a real browser. Usage: browser_test.py MULTIHEAD MAKE_CAPTURES WORK [unittest arguments]

WORK keeps the accessibility checker between runs. Exit status 77 (skipped) without chromium and chromedriver: ./dev need browser."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
import xml.etree.ElementTree
import zipfile

from definition import attention
from misbeliefs import JUDGES
from serving import Lab
from webdriver import Browser, available

if not available():
    print("no chromium or no chromedriver here: skipped (./dev need browser)")
    sys.exit(77)
PROGRAM, MAKE_CAPTURES, WORK = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
del sys.argv[1:4]
LANGUAGES, ROOMS = ("en", "zh", "ru"), ("lab", "flow", "figure", "map")
READY = "return document.body.dataset.busy === 'false' && Boolean(document.body.dataset.room)"


def axe_source():
    """axe-core's text from its pinned wheel, or None when there is none and no way to fetch it."""
    requirements = pathlib.Path(__file__).with_name("requirements.txt")
    if not list(WORK.glob("*.whl")):
        WORK.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "--dest", str(WORK), "-r", str(requirements)],
                              capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            print(f"accessibility is not checked: {done.stderr.strip().splitlines()[-1:]}")
            return None
    with zipfile.ZipFile(next(WORK.glob("*.whl"))) as wheel:
        return wheel.read(next(name for name in wheel.namelist() if name.endswith("axe.min.js"))).decode()


def setUpModule():
    global FOLDER, LAB, BROWSER
    FOLDER = tempfile.TemporaryDirectory()
    subprocess.run([MAKE_CAPTURES, FOLDER.name], check=True)
    LAB = Lab(PROGRAM, [pathlib.Path(FOLDER.name) / "small.safetensors", pathlib.Path(FOLDER.name) / "cross.safetensors"])
    BROWSER = Browser()


def tearDownModule():
    BROWSER.__exit__()
    LAB.stop()
    FOLDER.cleanup()


class PageTest(unittest.TestCase):
    def open(self, state="", width=1440, height=1000):
        BROWSER.resize(width, height)
        BROWSER.open("about:blank")
        BROWSER.log("browser")
        BROWSER.open(f"{LAB.address}#v=1{'&' + state if state else ''}")
        BROWSER.until("the room", lambda: BROWSER.script(READY))

    def tearDown(self):
        """Whatever a test did: nothing complained, and nothing was asked of anybody else."""
        complaints = [entry["message"] for entry in BROWSER.log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        self.assertEqual(complaints, [])
        strangers = [url for url in BROWSER.requested_urls() if urllib.parse.urlsplit(url).scheme not in ("data", "blob", "about", "chrome")
                     and urllib.parse.urlsplit(url).netloc != f"127.0.0.1:{LAB.port}"]
        self.assertEqual(strangers, [])

    def settled(self):
        BROWSER.until("the answer", lambda: BROWSER.script("return document.body.dataset.busy") == "false")

    def click(self, selector):
        BROWSER.click(selector)
        self.settled()

    def cells(self, name):
        """What a matrix shows, as texts."""
        return BROWSER.script("return [...document.querySelectorAll(`[data-matrix='${arguments[0]}'] tbody tr`)].map((row) =>"
                              "[...row.querySelectorAll('[data-cell]')].map((cell) => cell.querySelector('input')?.value ?? cell.textContent))", name)

    def state(self):
        return BROWSER.script("return location.hash")

    def changed(self):
        return BROWSER.script("return document.querySelector('.changed-list').dataset.changed").split()


class SeedExperiment(PageTest):
    """Preset 3 × 4 with two heads; compare; then one head at the same projection; then a number that does not divide."""

    def test_two_heads_then_one_then_three(self):
        self.open()
        self.assertEqual(self.cells("prob.0")[0], ["0.486", "0.029", "0.486"])
        self.assertEqual(self.cells("prob.1")[0], ["0.486", "0.486", "0.029"])
        self.assertEqual(self.cells("concat")[0], ["1.943", "0.057", "1.943", "0.057"])
        self.click("#compare")
        self.assertEqual(self.cells("there.prob.0")[0], ["0.787", "0.107", "0.107"])
        self.assertLess(float(BROWSER.script("return document.querySelector('#identity [data-difference]').dataset.difference")), 1e-5)
        self.assertEqual(self.cells("identity.left"), self.cells("identity.right"))
        self.assertGreater(float(BROWSER.script("return document.querySelector('[data-outputs]').dataset.outputs")), 0.1)
        self.click("#heads input[value='1']")
        self.assertEqual(self.cells("prob.0")[0], ["0.787", "0.107", "0.107"])
        self.assertEqual(self.cells("Q"), [["2.000", "0.000", "2.000", "0.000"], ["0.000", "2.000", "2.000", "0.000"], ["2.000", "0.000", "0.000", "2.000"]])
        BROWSER.script("document.querySelector('#heads-other').value = ''")
        BROWSER.type("#heads-other", "3")
        BROWSER.press("Enter")
        self.settled()
        BROWSER.until("the refusal", lambda: "1, 2, 4" in BROWSER.text(".error"))
        self.assertIn("num_heads 3 does not divide model_dim 4", BROWSER.text(".error"))
        self.click("#undo")
        self.assertTrue(BROWSER.script("return document.querySelector('.error').hidden"))


class Room(PageTest):
    def test_the_mask(self):
        self.open()
        self.click("#mask input[value='causal']")
        self.assertEqual(self.cells("prob.0")[0], ["1.000", "masked", "masked"])
        self.assertEqual(self.cells("score.1")[1][2], "masked")
        self.click("#mask input[value='after_softmax']")
        self.assertEqual(self.cells("prob.0")[0], ["0.486", "0.000", "0.000"])
        self.assertTrue(BROWSER.script("return document.querySelector('.sums').classList.contains('wrong')"))

    def test_editing_by_keys_undo_redo_reset(self):
        self.open()
        BROWSER.script("document.querySelector(\"[data-cell='X.0.0'] input\").focus()")
        BROWSER.press("ArrowUp")
        self.settled()
        BROWSER.until("the edit", lambda: self.cells("X")[0][0] == "3")
        self.assertEqual(self.changed(), ["X", "Q", "K", "V", "S₁", "A₁", "O₁", "Concat", "Y"])
        BROWSER.press("ArrowDown", hold=["Shift"])
        self.settled()
        self.assertEqual(self.cells("X")[0][0], "2.9")
        BROWSER.press("ArrowRight")
        self.assertEqual(BROWSER.script("return document.activeElement.closest('[data-cell]').dataset.cell"), "X.0.1")
        BROWSER.press("-", "1", ".", "5", "Enter")
        self.settled()
        self.assertEqual(self.cells("X")[0][1], "−1.5")
        self.assertEqual(BROWSER.script("return document.activeElement.closest('[data-cell]').dataset.cell"), "X.1.1")
        self.click("#undo")
        self.click("#undo")
        self.assertEqual(self.cells("X")[0][:2], ["3", "0"])
        self.click("#redo")
        self.assertEqual(self.cells("X")[0][:2], ["2.9", "0"])
        self.click("#reset")
        self.assertEqual(self.cells("X")[0], ["2", "0", "2", "0"])

    def test_what_is_no_number_changes_nothing(self):
        self.open()
        BROWSER.script("document.querySelector(\"[data-cell='X.0.0'] input\").focus()")
        BROWSER.press("a", "Enter")
        self.settled()
        self.assertEqual(BROWSER.script("return document.querySelector(\"[data-cell='X.0.0'] input\").getAttribute('aria-invalid')"), "true")
        self.assertEqual(self.cells("Q")[0][0], "2.000")

    def test_changing_w_v_moves_only_what_follows_from_it(self):
        self.open()
        BROWSER.script("document.querySelector(\"[data-cell='WV.0.0'] input\").focus()")
        BROWSER.press("ArrowUp")
        self.settled()
        BROWSER.until("the edit", lambda: self.cells("WV")[0][0] == "2")
        self.assertEqual(self.changed(), ["W_V", "V", "O₁", "Concat", "Y"])
        self.assertEqual(BROWSER.script("return [...document.querySelectorAll('[data-matrix=\"prob.0\"] .changed')].length"), 0)

    def test_where_a_number_comes_from(self):
        self.open("preset=random")
        answer = LAB.post(LAB.preset("random"))[1]
        for cell, words in (("Q.0.0", "W_Q"), ("score.0.1.2", "√dₖ"), ("prob.1.0.0", "exp"), ("O.0.0.1", "V₁"), ("concat.0.3", "O₂[1, 2]"), ("Y.2.1", "W_O")):
            BROWSER.script("document.querySelector(`[data-cell='${arguments[0]}']`).focus()", cell)
            self.assertIn(words, BROWSER.text(".trace-formula"), cell)
            self.assertEqual(BROWSER.script("return document.querySelector('.trace-value strong').textContent"), self.cells(cell.rsplit(".", 2)[0])[int(cell.split(".")[-2])][int(cell.split(".")[-1])])
        self.assertEqual(BROWSER.script("return document.querySelectorAll('.cell.source').length"), 8)
        self.assertEqual(self.cells("Y")[2][1].replace("−", "-"), f"{answer['output'][2][1]:.3f}")

    def test_arrow_keys_walk_a_result(self):
        self.open()
        BROWSER.script("document.querySelector(\"[data-cell='prob.0.0.0']\").focus()")
        BROWSER.press("ArrowRight", "ArrowDown")
        self.assertEqual(BROWSER.script("return document.activeElement.dataset.cell"), "prob.0.1.1")

    def test_explicit_head_width_makes_three_heads_legal(self):
        self.open("h=3&dh=2")
        self.assertEqual(len(self.cells("Q")[0]), 6)
        self.assertEqual(BROWSER.script("return document.querySelectorAll('.head').length"), 3)

    def test_findings(self):
        self.open("preset=duplicate")
        self.assertIn("copies", BROWSER.text(".findings"))

    def test_the_player_both_ways(self):
        self.open("mask=causal&playRow=1")
        titles = []
        for _ in range(10):
            self.click("#player-next")
            titles.append(BROWSER.text("#player h3"))
        self.assertEqual(titles[0], "The query")
        self.assertEqual(titles[-1], "Output")
        self.assertEqual(len(set(titles)), 10)
        self.assertTrue(BROWSER.script("return document.querySelector('#player-next').disabled"))
        self.click("#player-online")
        self.assertIn("the first", BROWSER.text("#player h3"))
        self.click("#player-next")
        self.click("#player-next")
        self.assertIn("lse", BROWSER.text(".player-numbers"))

    def test_predict_then_reveal(self):
        self.open()
        BROWSER.type("[data-question='oneHead'] input", "0.5")
        self.click("[data-question='oneHead'] .commit")
        BROWSER.until("the gap", lambda: "0.393" in BROWSER.script("return document.querySelector(\"[data-question='oneHead'] .reveal\").textContent"))
        answers = {"firstRow": 1, "twoHeads": 0.4856, "oneHead": 0.1065, "parameters": 64, "rowSum": 1, "exponentials": 4}
        for key, value in answers.items():
            self.click(f"[data-question='{key}'] .show")
            BROWSER.until(key, lambda k=key: BROWSER.script("return document.querySelector(`[data-question='${arguments[0]}'] .reveal`).dataset.answer ?? ''", k) != "")
            self.assertAlmostEqual(float(BROWSER.script("return document.querySelector(`[data-question='${arguments[0]}'] .reveal`).dataset.answer", key)), value, places=3)

    def test_counters(self):
        self.open("h=4")
        self.assertEqual(BROWSER.script("return document.querySelector('#counters tr.current').dataset.heads"), "4")
        self.assertEqual(BROWSER.script("return [...document.querySelectorAll('[data-count=parameters]')].map((cell) => cell.textContent)"), ["64"] * 3)


class Misconceptions(PageTest):
    def test_each_is_met_by_the_engine(self):
        self.open()
        for number in range(1, 18):
            item = f"[data-experiment='{number}']"
            self.click(f"{item} .try")
            BROWSER.until(f"verdict {number}", lambda i=item: BROWSER.script("return document.querySelector(arguments[0] + ' .belief-verdict').dataset.holds ?? ''", i) != "")
            self.assertEqual(BROWSER.script("return document.querySelector(arguments[0] + ' .belief-verdict').dataset.holds", item), "true", number)
            self.assertIn(f"experiment={number}", self.state())

    def test_each_is_met_by_the_definition(self):
        self.open()
        presets = {entry["name"]: entry["problem"] for entry in LAB.json("/api/presets")["presets"]}
        trials = BROWSER.wait_script("const {EXPERIMENTS} = await import('/experiments.js'); return EXPERIMENTS.map((e) => e.trials(args[0]))", presets)
        self.assertEqual(len(trials), 17)
        for number, (problems, judge) in enumerate(zip(trials, JUDGES), 1):
            stages = [attention(p) if p["head_dim"] or len(p["input"][0]) % p["num_heads"] == 0 else None for p in problems]
            self.assertTrue(judge(stages, problems), number)

    def test_no_verdict_is_granted_for_nothing(self):
        """The same answer for every trial shows nothing, and no check may say that it does."""
        self.open()
        presets = {entry["name"]: entry["problem"] for entry in LAB.json("/api/presets")["presets"]}
        held = BROWSER.wait_script("const {EXPERIMENTS} = await import('/experiments.js'); const api = await import('/api.js'); const held = [];"
                                   "for (const [i, e] of EXPERIMENTS.entries()) { const problems = e.trials(args[0]);"
                                   "const first = await api.compute(problems[0]); if (e.check(problems.map(() => first)).holds) held.push(i + 1); } return held", presets)
        self.assertEqual(held, [])


class Links(PageTest):
    def test_any_state_survives_the_address(self):
        self.open()
        failures = BROWSER.wait_script("""
            const {SCHEMA, defaults, encode, decode} = await import('/state.js');
            let seed = 12345;
            const random = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
            const pick = (list) => list[Math.floor(random() * list.length)];
            const words = ['', 'a b&c=d#e', 'x%y', '中文', 'small-2'];
            const matrix = () => Array.from({length: 1 + Math.floor(random() * 5)}, () => 0).map((_, i, all) => all.map(() => pick([0, 1, -2.5, 1e-7, 123456.75, Math.fround(random())])));
            const failures = [];
            for (let round = 0; round < 500; ++round) {
              const state = defaults();
              for (const [key, type] of Object.entries(SCHEMA)) {
                if (random() < 0.5) continue;
                // Any value that its own reader accepts.
                const candidates = [...['lab', 'flow', 'figure', 'map', 'en', 'zh', 'ru', 'light', 'dark', 'two-heads', 'random', 'cross', 'none', 'causal', 'after_softmax', 'model', 'yes', 'no',
                  'vaswani-base', 'custom', 'capture', 'mean', 'mass', 'linear', 'lift', 'confidence'], '0', '1', '2', '3', '11', '-1', '4.25', '-17.5', '1e-7', ...words.map(encodeURIComponent), matrix().map((row) => row.join(',')).join(';')];
                const values = candidates.map((text) => type.read(text)).filter((value) => value !== undefined);
                if (values.length) state[key] = pick(values);
              }
              const again = decode(encode(state));
              if (JSON.stringify(again) !== JSON.stringify(state)) failures.push(encode(state));
              if (encode(again) !== encode(state)) failures.push('not stable ' + encode(state));
            }
            return failures;""")
        self.assertEqual(failures, [])

    def test_hostile_addresses_open_the_default(self):
        for state in ("X=1,2;3", "X=NaN", "X=" + ";".join(["1"] * 17), "h=99&mask=%3Cscript%3E", "room=attic", "v=7&h=4", "h=1e3", "top=Infinity"):
            self.open(state)
            self.assertEqual(self.cells("prob.0")[0], ["0.486", "0.029", "0.486"], state)

    def test_a_link_reopens_what_was_seen(self):
        self.open()
        self.click("#mask input[value='causal']")
        BROWSER.script("document.querySelector(\"[data-cell='WK.1.2'] input\").focus()")
        BROWSER.press("ArrowUp")
        self.settled()
        seen = self.cells("Y"), self.cells("prob.1"), self.state()
        self.open(seen[2].removeprefix("#v=1&"))
        self.assertEqual((self.cells("Y"), self.cells("prob.1"), self.state()), seen)
        self.assertIn("WK=", seen[2])

    def test_going_back_to_an_older_link_in_the_same_page(self):
        self.open()
        BROWSER.script("location.hash = '#v=1&room=flow&flow=vaswani-base'")
        BROWSER.until("the room", lambda: BROWSER.script("return document.body.dataset.room") == "flow" and BROWSER.script(READY))
        self.assertIn("512", BROWSER.text(".flow-picture"))


class Flow(PageTest):
    def fact(self, name):
        return BROWSER.script("return document.querySelector(`[data-fact='${arguments[0]}']`).textContent", name)

    def test_llama(self):
        self.open("room=flow")
        picture = BROWSER.script("return document.querySelector('.flow-picture').textContent")
        for words in ("(S, 4096)", "(S, 32, 128) → (32, S, 128)", "Head 32", "√128", "32 × (S, 128) → (S, 4096)"):
            self.assertIn(words, picture)
        self.assertEqual(self.fact("parameters"), "67,108,864")
        self.assertEqual(self.fact("notStored"), "512 MiB")
        self.assertGreaterEqual(len(BROWSER.find_all("#room math")), 5)

    def test_a_layer_of_ones_own_and_its_refusal(self):
        self.open("room=flow&flow=custom&fd=512&fh=8&fcausal=0&S=100")
        self.assertEqual(self.fact("parameters"), "1,048,576")
        BROWSER.script("const field = document.querySelector('#flow-h'); field.value = 7; field.dispatchEvent(new Event('change'))")
        self.settled()
        BROWSER.until("the refusal", lambda: "num_heads 7" in BROWSER.text(".error"))


class Figure(PageTest):
    def test_steps_and_exports(self):
        self.open("room=figure&preset=cross")
        for _ in range(3):
            self.click("#figure-next")
        self.assertIn("figureStep=3", self.state())
        self.assertIn("Query 2", BROWSER.text(".figure-side"))
        for name in ("figure", "slide"):
            text = BROWSER.wait_script("const {FigureRoom} = await import('/figure_room.js'); const {svgFile} = await import('/figure_svg.js'); const {LIGHT} = await import('/figure_svg.js');"
                                       "const room = new FigureRoom(document.createElement('div')); await room.mount();"
                                       "const node = args[0] === 'slide' ? room.slideNode() : room.picture(3, LIGHT); room.unmount(); return svgFile(node).text()", name)
            root = xml.etree.ElementTree.fromstring(text)
            self.assertTrue(root.tag.endswith("svg"))
            self.assertNotIn("undefined", text)
            self.assertNotIn("NaN", text)
            self.assertNotIn("class=", text)
            if name == "slide":
                self.assertEqual((root.get("width"), root.get("height")), ("1280", "720"))
                self.assertIn("h = 2", text)

    def test_a_captures_numbers(self):
        self.open("room=figure&figure=capture&capture=small&figureHead=1&figureStep=2")
        share = LAB.json("/api/captures/small/1/at?i=0&j=0")["probability"]
        self.assertEqual(share, 1)
        titles = BROWSER.script("return [...document.querySelectorAll('.figure-stage title')].map((title) => title.textContent)")
        self.assertIn("A[1, 1] = 1.000", titles)


class Map(PageTest):
    def tiles(self):
        BROWSER.until("tiles", lambda: BROWSER.script("return document.body.dataset.tiles") == "ready")

    def test_the_keyboard_goes_everywhere(self):
        self.open("room=map&capture=small")
        self.tiles()
        BROWSER.script("document.querySelector('.map-canvas').focus()")
        BROWSER.press("+", "+", "+")
        self.assertIn("span=", self.state())
        before = self.state()
        BROWSER.press("ArrowRight", "ArrowDown")
        self.assertNotEqual(self.state(), before)
        BROWSER.press("Enter")
        self.assertIn("row=", self.state())
        row = BROWSER.script("return Number(new URLSearchParams(location.hash.slice(1)).get('row'))")
        BROWSER.press("ArrowDown", hold=["Shift"])
        self.assertEqual(BROWSER.script("return Number(new URLSearchParams(location.hash.slice(1)).get('row'))"), row + 1)
        BROWSER.press("]")
        self.assertIn("head=1", self.state())
        BROWSER.press("[", "[")
        self.assertIn("head=3", self.state())
        BROWSER.press("p")
        self.assertIn("pool=mean", self.state())
        BROWSER.press("m")
        self.assertIn("hatch=0", self.state())
        BROWSER.press("0")
        self.assertNotIn("span=", self.state())
        BROWSER.press("g")
        self.assertEqual(BROWSER.script("return document.activeElement.id"), "goto")
        BROWSER.press(*"500, 499", "Enter")
        self.assertIn("row=500&key=499", self.state())
        exact = LAB.json("/api/captures/small/3/at?i=500&j=499")
        BROWSER.until("the coefficient in words", lambda: f"{exact['log2']:.3f}" in BROWSER.text("#cell-words"))
        self.assertEqual(BROWSER.script("return document.activeElement.className"), "map-canvas")
        BROWSER.press("?")
        self.assertTrue(BROWSER.script("return document.querySelector('#map-help').open"))

    def test_to_the_largest(self):
        self.open("room=map&capture=small&head=1&row=300&key=100")
        self.tiles()
        BROWSER.resize(700, 700)
        self.open("room=map&capture=small&head=1&row=300&key=299", 500, 600)
        self.tiles()
        cells = BROWSER.script("return Number(/one cell = (\\d+)/.exec(document.querySelector('#map-info').textContent)[1])")
        BROWSER.script("document.querySelector('.map-canvas').focus()")
        BROWSER.press("a")
        first = [value - value % cells for value in (300, 299)]
        found = LAB.json(f"/api/captures/small/1/cell?row={first[0]}&rows={cells}&key={first[1]}&keys={cells}")
        BROWSER.until("the jump", lambda: f"row={found['i']}&key={found['j']}" in self.state())

    def test_it_says_what_a_tile_took(self):
        self.open("room=map&capture=small&head=2")
        self.tiles()
        self.assertRegex(BROWSER.text("#tile-source"), r"(recomputed in|kept from before).*\d ms")

    def test_colours_follow_the_values_and_states_differ_without_colour(self):
        self.open("room=map&capture=small&head=1&span=8&left=96&top=96")
        self.tiles()
        lightness = BROWSER.wait_script("""
            const {tableOf} = await import('/map_colour.js');
            const light = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
            return tableOf('log').map(light);""")
        self.assertTrue(all(a <= b + 0.5 for a, b in zip(lightness, lightness[1:])))
        patterns = BROWSER.script("return [...document.querySelectorAll('.legend-sample')].map((canvas) => { const {data} = canvas.getContext('2d').getImageData(0, 0, 14, 14);"
                                  "return [...data].filter((_, i) => i % 4 !== 3).map((v, i, all) => i % 3 ? '' : Math.round((all[i] + all[i + 1] + all[i + 2]) / 24) + (data[(i / 3) * 4 + 3] ? 'x' : 'o')).join(); })")
        self.assertEqual(len(set(patterns)), 6)

    def test_two_heads_statistics_and_exports(self):
        self.open("room=map&capture=small&other=1&sort=previous_mass")
        self.tiles()
        self.assertFalse(BROWSER.script("return document.querySelector('.map-canvas.other').hidden"))
        BROWSER.until("statistics", lambda: BROWSER.script("return document.querySelector('.head-button small') !== null && document.querySelector('.head-button').dataset.head") == "1")
        png, vector, html = BROWSER.wait_script("""
            const {MapView} = await import('/map_view.js'); const {Tiles} = await import('/map_tiles.js'); const files = await import('/map_export.js'); const api = await import('/api.js');
            const capture = (await api.get('/api/captures')).captures[0];
            const canvas = document.createElement('canvas'); canvas.width = canvas.height = 300;
            const tiles = new Tiles(() => {}, () => {}); const view = new MapView(canvas, tiles);
            view.set({capture, head: 1, view: {top: 40, left: 40, span: 20}, look: {colour: 'log', low: -20, high: 0, hatch: true, paper: [255, 255, 255], ink: [0, 0, 0]}, pool: 'max', values: false, cross: null});
            for (let i = 0; i < 100 && (tiles.want(view.draw()), tiles.pending()); ++i) await new Promise((done) => setTimeout(done, 20));
            const text = (blob) => blob.text();
            return [(await files.exportPng(view)).size, await text(await files.exportSvg(view)), await text(await files.exportHtml(view))];""")
        self.assertGreater(png, 1000)
        self.assertTrue(xml.etree.ElementTree.fromstring(vector).tag.endswith("svg"))
        self.assertNotRegex(html, r"(src|href)=\"(?!data:)")
        file = pathlib.Path(FOLDER.name) / "map.html"
        file.write_text(html, encoding="utf-8")
        BROWSER.open(file.as_uri())
        exact = LAB.json("/api/captures/small/1/at?i=40&j=40")
        told = BROWSER.script("return document.getElementById('told').textContent")
        self.assertIn("40", told)
        self.assertIn(f"{round(exact['log2'] * 256) / 256:.2f}", told)
        BROWSER.requested_urls()

    def test_a_map_that_is_not_square(self):
        self.open("room=map&capture=cross&head=1&colour=lift&low=-8&high=8")
        self.tiles()
        self.assertIn("one cell = 1 × 1", BROWSER.text("#map-info"))


class Everybody(PageTest):
    def test_accessibility_of_every_room_in_every_language(self):
        source = axe_source()
        if source is None:
            self.skipTest("no axe-core")
        for language in LANGUAGES:
            for room in ROOMS:
                self.check(source, f"room={room}&lang={language}&play=1&compare=1&capture=small&row=20&key=10", (language, room))
        for room in ROOMS:
            self.check(source, f"room={room}&theme=dark&mask=causal&play=1&online=1&experiment=7", ("dark", room))

    def check(self, source, state, what):
        self.open(state)
        if "room=map" in state:
            BROWSER.until("tiles", lambda: BROWSER.script("return document.body.dataset.tiles") == "ready")
        BROWSER.script(source)
        violations = BROWSER.wait_script("const found = await axe.run(document, {resultTypes: ['violations']});"
                                         "return found.violations.map(({id, nodes}) => `${id}: ${nodes.slice(0, 3).map(({html, failureSummary}) => html.slice(0, 160) + ' ' + failureSummary.slice(0, 240)).join(' | ')}`)")
        self.assertEqual(violations, [], what)

    def test_no_room_is_wider_than_a_phone(self):
        for room in ROOMS:
            self.open(f"room={room}&compare=1", 500, 900)
            wide = BROWSER.script("return [document.documentElement.scrollWidth, innerWidth]")
            self.assertLessEqual(wide[0], wide[1], room)

    def test_languages_switch_in_place(self):
        self.open("preset=duplicate")
        for language, word in (("ru", "Головы"), ("zh", "各个头"), ("en", "Heads")):
            BROWSER.script("const list = document.querySelector('#language'); list.value = arguments[0]; list.dispatchEvent(new Event('change'))", language)
            BROWSER.until(language, lambda l=language: BROWSER.script("return document.documentElement.lang") == l and BROWSER.script(READY))
            BROWSER.until(word, lambda w=word: BROWSER.text("#stage-heads-title") == w)
            self.assertIn("preset=duplicate", self.state())


if __name__ == "__main__":
    unittest.main()
