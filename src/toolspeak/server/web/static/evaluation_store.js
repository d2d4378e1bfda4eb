// @ts-check
/** The runs of Evaluate, kept in this browser. */

/** @typedef {import("./evaluation_run.js").Run} Run */

const STORE = "runs";
const MOST = 40;

/** @returns {Promise<IDBDatabase>} */
const open = () =>
  new Promise((resolve, reject) => {
    const asked = indexedDB.open("toolspeak-evaluations", 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore(STORE, { keyPath: "id" });
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });

/**
 * @template T
 * @param {IDBTransactionMode} mode
 * @param {(store: IDBObjectStore) => IDBRequest<T>} ask
 * @returns {Promise<T>}
 */
async function use(mode, ask) {
  const database = await open();
  try {
    return await new Promise((resolve, reject) => {
      const transaction = database.transaction(STORE, mode);
      const asked = ask(transaction.objectStore(STORE));
      transaction.oncomplete = () => resolve(asked.result);
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
  } finally {
    database.close();
  }
}

/**
 * The runs, newest first. The oldest ones are removed.
 * @returns {Promise<Run[]>}
 */
export async function loadRuns() {
  const runs = (await use("readonly", (store) => store.getAll())).sort((one, two) => two.began - one.began);
  for (const run of runs.splice(MOST)) await removeRun(run.id);
  return runs;
}

/** @param {Run} run */
export const saveRun = (run) => use("readwrite", (store) => store.put(run));

/** @param {string} id */
export const removeRun = (id) => use("readwrite", (store) => store.delete(id));
