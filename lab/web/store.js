// The state, who wants to know of its changes, and the way back.
import {decode, encode} from './state.js';

const LIMIT = 200;

let state = decode(location.hash);
let past = [];
let future = [];
const listeners = new Set();

export const get = () => state;

export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function become(next) {
  const before = state;
  state = next;
  history.replaceState(null, '', encode(state));
  for (const listener of [...listeners]) listener(state, before);
}

/** Changes the state. `undoable`: an edit of the subject, not of the view. */
export function set(patch, {undoable = false} = {}) {
  const next = {...state, ...patch};
  if (encode(next) === encode(state)) return;
  if (undoable) {
    past = [...past, state].slice(-LIMIT);
    future = [];
  }
  become(next);
}

export const canUndo = () => past.length > 0;
export const canRedo = () => future.length > 0;

// A room stays open while its numbers go back and forth.
const keepingView = (to) => ({...to, room: state.room, lang: state.lang, theme: state.theme});

export function undo() {
  if (!past.length) return;
  const to = past.pop();
  future.push(state);
  become(keepingView(to));
}

export function redo() {
  if (!future.length) return;
  const to = future.pop();
  past.push(state);
  become(keepingView(to));
}

addEventListener('hashchange', () => {
  if (location.hash === '#main') return history.replaceState(null, '', encode(state));
  if (encode(decode(location.hash)) !== encode(state)) become(decode(location.hash));
});
