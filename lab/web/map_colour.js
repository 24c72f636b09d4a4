// Raw tile codes to colours. Both scales are straight lines of lightness in OKLab (Ottosson 2020): equal steps look equal, grey
// prints keep the order, and hue only helps. States that are no numbers get patterns, so that nobody needs to see colour.

export const CODES = {masked: -32768, outside: -32767, nonFinite: -32766, below: -32765};
export const STEPS = 256;  // codes a bit
export const TILE = 256;   // cells a side

function linear(lightness, a, b) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s, -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s];
}

// Lightness, chroma and hue as sRGB bytes; chroma gives way where sRGB has no such colour, lightness never does.
function polar(lightness, chroma, degrees) {
  const angle = degrees * Math.PI / 180;
  const at = (c) => linear(lightness, c * Math.cos(angle), c * Math.sin(angle));
  while (chroma > 0.001 && at(chroma).some((value) => value < -1e-4 || value > 1.0001)) chroma -= 0.002;
  return at(chroma).map((value) => Math.min(1, Math.max(0, value)))
    .map((value) => Math.round(255 * (value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055)));
}

// Dark indigo over magenta and orange to light yellow.
const SEQUENTIAL = Array.from({length: 256}, (_, i) => {
  const x = i / 255;
  return polar(0.18 + 0.78 * x, 0.05 + 0.12 * Math.sin(Math.PI * x ** 0.9), 285 + 175 * x);
});
// Blue below uniform, near white at it, orange above.
const DIVERGING = Array.from({length: 256}, (_, i) => {
  const x = i / 127.5 - 1;
  return polar(0.97 - 0.52 * Math.abs(x), 0.17 * Math.abs(x) ** 0.8, x < 0 ? 255 : 45);
});
export const NON_FINITE = [224, 0, 160];

export const tableOf = (colour) => (colour === 'lift' ? DIVERGING : SEQUENTIAL);
export const DOMAINS = {log: [-16, 0], linear: [0, 1], lift: [-8, 8]};

/** The number that a scale shows for a log2 value; `uniform`: log2 of what uniform attention would give. */
export function scaled(log2, colour, uniform) {
  if (colour === 'linear') return 2 ** log2;
  return colour === 'lift' ? log2 - uniform : log2;
}

/**
 * Paints codes into an ImageData's bytes. look: {colour, low, high, hatch, paper: [r, g, b], ink: [r, g, b], coarse}.
 * uniformOf(row): log2 of uniform attention in that row of cells. coarse: cells are large on the screen, patterns come on top.
 */
export function paint(codes, bytes, width, look, uniformOf) {
  const table = tableOf(look.colour);
  const range = Math.max(1e-9, look.high - look.low);
  const height = codes.length / width;
  for (let row = 0; row < height; ++row) {
    const uniform = look.colour === 'lift' ? uniformOf(row) : 0;
    for (let column = 0; column < width; ++column) {
      const index = row * width + column;
      const code = codes[index];
      let rgb = look.paper;
      if (code === CODES.masked) {
        if (look.hatch && !look.coarse && ((row + column) & 7) < 1) rgb = look.ink;
      } else if (code === CODES.nonFinite) {
        rgb = look.coarse || ((row ^ column) & 1) ? NON_FINITE : look.paper;
      } else if (code !== CODES.outside) {
        const value = code === CODES.below ? -Infinity : scaled(code / STEPS, look.colour, uniform);
        const place = (value - look.low) / range;
        // Below the floor: the darkest colour with dots, so that it is neither the floor's own value nor nothing.
        if (place < 0) rgb = !look.coarse && (row & 3) === 1 && (column & 3) === 1 ? table[150] : table[0];
        else rgb = table[Math.min(255, Math.round(255 * place))];
      }
      const at = 4 * index;
      bytes[at] = rgb[0];
      bytes[at + 1] = rgb[1];
      bytes[at + 2] = rgb[2];
      bytes[at + 3] = code === CODES.outside ? 0 : 255;
    }
  }
}

/** What a code is: 'value', 'below', 'masked', 'outside' or 'nonFinite'. */
export function stateOf(code, look, uniform) {
  for (const [state, special] of Object.entries(CODES)) if (code === special) return state;
  return scaled(code / STEPS, look.colour, uniform) < look.low ? 'below' : 'value';
}
