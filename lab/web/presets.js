// The lab's presets, from the engine, by name.
import * as api from './api.js';

let presets;

export async function loadPresets(seed) {
  if (!presets) {
    const answer = await api.get('/api/presets');
    presets = Object.fromEntries(answer.presets.map(({name, problem}) => [name, problem]));
  }
  if (seed === 1) return presets;
  return {...presets, random: (await api.get(`/api/random?seed=${seed}`)).problem};
}
