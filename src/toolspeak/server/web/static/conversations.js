// @ts-check
/** Groups the requests of the list by conversation, the newest conversation first. */

/**
 * Puts the requests of a conversation together. Each has more messages than the one before it; a request with the same
 * question that has not begins another conversation.
 * @template {{conversation: string, messages: number, model: string, tenant?: string}} Request
 * @param {Request[]} requests newest first
 * @returns {{request: Request, follows: boolean, size: number}[]} `follows`: a newer request of its conversation precedes it; `size` of the conversation
 */
export function grouped(requests) {
  /** @type {Request[][]} each newest first */
  const groups = [];
  /** @type {Map<string, Request[]>} the conversations that may have begun earlier */
  const open = new Map();
  for (const request of requests) {
    const key = `${request.conversation} ${request.tenant ?? ""} ${request.model}`;
    const group = request.conversation ? open.get(key) : undefined;
    if (group && /** @type {Request} */ (group.at(-1)).messages > request.messages) {
      group.push(request);
      continue;
    }
    const begun = [request];
    groups.push(begun);
    open.set(key, begun);
  }
  return groups.flatMap((group) => group.map((request, index) => ({ request, follows: index > 0, size: group.length })));
}
