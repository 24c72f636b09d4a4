// Starts the page: language, theme, and the room that the state names.
import * as store from './store.js';
import {announce, button, el, select} from './dom.js';
import {LANGUAGES, currentLanguage, t, useLanguage} from './i18n.js';
import {ROOMS} from './state.js';
import {FigureRoom} from './figure_room.js';
import {FlowRoom} from './flow_room.js';
import {LabRoom} from './lab_room.js';
import {MapRoom} from './map_room.js';

const CLASSES = {lab: LabRoom, flow: FlowRoom, figure: FigureRoom, map: MapRoom};
const root = document.getElementById('room');
const documentLanguage = document.documentElement.lang;
let room = null;

function showRooms(state) {
  const nav = document.getElementById('rooms');
  nav.replaceChildren(...ROOMS.map((key) => button(t(`room.${key}`), () => store.set({room: key}),
    {class: 'room-tab', id: `room-${key}`, 'aria-current': state.room === key ? 'page' : null})));
  nav.setAttribute('aria-label', t('nav.rooms'));
}

function showSettings(state) {
  const theme = state.theme || 'auto';
  document.getElementById('settings').replaceChildren(
    select(Object.entries(LANGUAGES), currentLanguage(), (lang) => store.set({lang}), {id: 'language', 'aria-label': t('nav.language')}),
    select(['auto', 'light', 'dark'].map((key) => [key, t(`theme.${key}`)]), theme, (value) => store.set({theme: value === 'auto' ? '' : value}),
      {id: 'theme', 'aria-label': t('nav.theme')}));
}

function applyTheme(state) {
  if (state.theme) document.documentElement.dataset.theme = state.theme;
  else delete document.documentElement.dataset.theme;
}

// The theory was written by the server in its language; the page keeps it, in the reader's.
function translateTheory() {
  const article = document.getElementById('theory');
  article.querySelector('h2').textContent = t('theory.title');
  const keys = ['what', 'self', 'heads', 'concat', 'mask', 'engine', 'source'];
  article.querySelectorAll('p').forEach((paragraph, index) => { paragraph.textContent = t(`theory.${keys[index]}`); });
  document.querySelector('.skip').textContent = t('skip');
  document.querySelector('.foot p').textContent = t('footer');
  document.title = t('title');
}

async function enter(state) {
  document.body.dataset.busy = 'true';
  room?.unmount();
  showRooms(state);
  showSettings(state);
  translateTheory();
  document.getElementById('theory').hidden = state.room !== 'lab';
  root.className = `room room-of-${state.room}`;
  room = new CLASSES[state.room](root);
  try {
    await room.mount();
  } catch (error) {
    root.replaceChildren(el('p', {class: 'error', role: 'alert', text: t('failed', {message: error.message})}));
    throw error;
  } finally {
    document.body.dataset.busy = 'false';
    document.body.dataset.room = state.room;
  }
}

// One change after another: a room is entered whole before the next one.
let queue = Promise.resolve();
function follow(state, before) {
  applyTheme(state);
  const language = state.lang || documentLanguage;
  if (state.room === before?.room && language === currentLanguage()) return;
  queue = queue.then(async () => {
    if (language !== currentLanguage() || !before) await useLanguage(language);
    await enter(state);
    if (before && state.room !== before.room) {
      announce(t(`room.${state.room}`));
      document.getElementById(`room-${state.room}`)?.focus();
      scrollTo(0, 0);
    }
  });
}

document.getElementById('numbers').remove();
document.documentElement.classList.add('live');
// Undo and redo, where no text field wants them for itself.
addEventListener('keydown', (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== 'z') return;
  if (event.target.matches('input[type=text], textarea')) event.target.blur();
  event.preventDefault();
  if (event.shiftKey) store.redo();
  else store.undo();
});
store.subscribe(follow);
follow(store.get(), null);
