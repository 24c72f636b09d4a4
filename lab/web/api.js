// The server, which is the engine. An error carries the engine's own words.

export class EngineError extends Error {}

async function answer(response) {
  const body = await response.json();
  if (!response.ok) throw new EngineError(body.error);
  return body;
}

export const get = async (path) => answer(await fetch(path));

/** What the engine says to a problem. To be refused is an answer here, so it comes without an HTTP error. */
export async function compute(problem) {
  const body = await answer(await fetch('/api/lab?refusals=answer', {
    method: 'POST',
    headers: {'Content-Type': 'application/json'},
    body: JSON.stringify(problem),
  }));
  if (body.refused) throw new EngineError(body.refused);
  return body;
}
