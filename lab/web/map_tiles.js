// Tiles of one page: asked for when they are seen, nearest to the middle first, forgotten when they have not been seen for long.
import {CODES, TILE} from './map_colour.js';

const PARALLEL = 3;
const KEPT = 320;

export class Tiles {
  /** changed(): something arrived. arrived(info): {source, milliseconds, step} of a tile that did. */
  constructor(changed, arrived) {
    this.changed = changed;
    this.arrived = arrived;
    this.tiles = new Map();  // by address, the last used last
    this.running = new Map();
    this.wanted = [];
  }

  static address(capture, head, z, x, y, pool, values) {
    return `/${capture.id}/${head}/${z}/${x}/${y}?pool=${pool}&values=${values ? 1 : 0}`;
  }

  /** The tile when it is here, else undefined. */
  peek(address) {
    const tile = this.tiles.get(address);
    if (tile) {
      this.tiles.delete(address);
      this.tiles.set(address, tile);
    }
    return tile;
  }

  /** A tile above the diagonal of a causal map is masked everywhere: nobody needs to be asked. */
  static knownMasked(capture, cells, x, y) {
    return capture.plainly_causal && x * TILE * cells > capture.first_position + (y + 1) * TILE * cells - 1;
  }

  static masked(capture, cells, x, y) {
    const codes = new Int16Array(TILE * TILE).fill(CODES.masked);
    for (let row = 0; row < TILE; ++row) {
      for (let column = 0; column < TILE; ++column) {
        if ((y * TILE + row) * cells >= capture.query_len || (x * TILE + column) * cells >= capture.key_len) codes[row * TILE + column] = CODES.outside;
      }
    }
    return {codes, source: 'known', milliseconds: 0, step: 1};
  }

  put(address, tile) {
    this.tiles.set(address, tile);
    while (this.tiles.size > KEPT) this.tiles.delete(this.tiles.keys().next().value);
  }

  /** All that is on the screen now, the most wanted first; what is no longer there is not waited for. */
  want(addresses) {
    const seen = new Set(addresses);
    for (const [address, controller] of this.running) {
      if (!seen.has(address)) {
        controller.abort();
        this.running.delete(address);
      }
    }
    this.wanted = addresses.filter((address) => !this.tiles.has(address) && !this.running.has(address));
    this.pump();
  }

  pending() { return this.wanted.length + this.running.size; }

  pump() {
    while (this.running.size < PARALLEL && this.wanted.length) this.load(this.wanted.shift());
  }

  async load(address) {
    const controller = new AbortController();
    this.running.set(address, controller);
    try {
      const answer = await fetch(address, {signal: controller.signal});
      if (!answer.ok) throw new Error((await answer.json()).error);
      const tile = {codes: new Int16Array(await answer.arrayBuffer()), source: answer.headers.get('X-Tile-Source'),
        milliseconds: Number(answer.headers.get('X-Tile-Milliseconds')), step: Number(answer.headers.get('X-Tile-Sample-Step'))};
      this.put(address, tile);
      this.arrived(tile);
    } catch (error) {
      if (error.name !== 'AbortError') this.put(address, {error: error.message});
    } finally {
      if (this.running.get(address) === controller) this.running.delete(address);
    }
    this.changed();
    this.pump();
  }

  /** The sweep is through: what was sampled is asked for again. */
  forgetSampled() {
    for (const [address, tile] of this.tiles) if (tile.source === 'sampled') this.tiles.delete(address);
    this.changed();
  }
}
