// Texts, one file a language: text/LANGUAGE.json.

export const LANGUAGES = {en: 'English', zh: '中文', ru: 'русский'};

let texts = {};
let language = 'en';

export async function useLanguage(name) {
  const answer = await fetch(`/text/${name}.json`);
  texts = await answer.json();
  language = name;
  document.documentElement.lang = name;
}

export const currentLanguage = () => language;

/** The text of a key, with {names} filled in. A missing key is a mistake of ours, so it is loud. */
export function t(key, values = {}) {
  const text = texts[key];
  if (text === undefined) throw new Error(`no text for ${key} in ${language}`);
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? values[name] : whole));
}

export const number = (value, digits = 0) =>
  new Intl.NumberFormat(language, {maximumFractionDigits: digits}).format(value);

/** 687.2 G */
export function withPrefix(value) {
  const units = [[1e15, 'P'], [1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];
  const [size, unit] = units.find(([least]) => Math.abs(value) >= least) ?? [1, ''];
  return `${Number((value / size).toPrecision(4))} ${unit}`.trim();
}

export function bytesText(value) {
  const units = [[2 ** 50, 'PiB'], [2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']];
  const [size, unit] = units.find(([least]) => value >= least) ?? [1, 'B'];
  return `${Number((value / size).toPrecision(4))} ${unit}`;
}

/** Fixed decimals with a real minus; what rounds to 0 without being it says so. */
export function fixed(value, {digits = 3, exact = false} = {}) {
  if (value === null) return t('masked');
  if (exact) return String(value).replace('-', '−');
  if (value !== 0 && Math.abs(value) < 0.5 * 10 ** -digits) return `${value < 0 ? '−' : ''}<${(10 ** -digits).toFixed(digits)}`;
  return value.toFixed(digits).replace('-', '−');
}

/** What a person typed into a cell: as short as it goes. */
export const short = (value) => String(Number(value.toPrecision(7))).replace('-', '−');
