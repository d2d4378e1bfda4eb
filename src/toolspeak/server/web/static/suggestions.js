// @ts-check

/** Example questions for the demo tools, which an empty chat suggests. */
export const SUGGESTIONS = [
  "What is 17 times 23?",
  "What time is it in Oslo and in Tokyo?",
  "Roll two dice and tell me the time in Paris.",
  "What is 12 * 12 and 13 * 13?",
  "Calculate (12 + 30) * 7.",
  "What time is it in Tokyo, in London and in New York?",
  "What is the capital of France?",
];
