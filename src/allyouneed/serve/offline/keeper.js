// Keeps the page, the engine and the model in the browser, so that they load without a network.

const NAME = "allyouneed";

self.addEventListener("install", (event) => event.waitUntil(keepAll()));
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
  if (event.request.method === "GET") event.respondWith(newest(event.request));
});

async function keepAll() {
  const { page } = await (await fetch("model/model.json")).json();
  await (await caches.open(NAME)).addAll(page);
  await self.skipWaiting();
}

/** The file as it is now or, without a network, as it was. */
async function newest(request) {
  const kept = await caches.open(NAME);
  try {
    const response = await fetch(request);
    if (response.ok) await kept.put(request, response.clone()).catch(() => {}); // the browser may have no room
    return response;
  } catch (error) {
    const found = await kept.match(request, { ignoreSearch: true });
    if (found) return found;
    throw error;
  }
}
