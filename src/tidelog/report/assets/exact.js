'use strict';
// Integers that are exact. A number of JavaScript is exact up to 2^53 only; offsets, producer ids and timestamps go
// up to 2^63. Such integers are BigInts, all others are numbers; both can be compared, but not added.

const isNumber = (value) => typeof value === 'number' || typeof value === 'bigint';
const tidy = (value) => (value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value);

// In JSON: strings and fractions, which stay as they are, or long integers.
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+[.eE][\d.eE+-]*|-?\d{16,}/g;
const MARK = '\u0000'; // the only key of an object that stands for a long integer

/** A value from its JSON. */
function parsed(json) {
  if (!/\d{16}/.test(json)) return JSON.parse(json);
  const marked = json.replace(TOKENS, (found) => (/^-?\d+$/.test(found) ? `{"\\u0000":"${found}"}` : found));
  return JSON.parse(marked, (_, value) => (value !== null && typeof value === 'object' && Object.hasOwn(value, MARK) ? tidy(BigInt(value[MARK])) : value));
}

/** What `inNumbers` tells, or `inBigInts` if that is not exact. */
function worked(one, other, inNumbers, inBigInts) {
  if (typeof one === 'number' && typeof other === 'number') {
    const result = inNumbers(one, other);
    if (Number.isSafeInteger(result) || !Number.isInteger(one) || !Number.isInteger(other)) return result;
  }
  return tidy(inBigInts(BigInt(one), BigInt(other)));
}

const plus = (one, other) => worked(one, other, (a, b) => a + b, (a, b) => a + b);
const minus = (one, other) => worked(one, other, (a, b) => a - b, (a, b) => a - b);
const times = (one, other) => worked(one, other, (a, b) => a * b, (a, b) => a * b);
const larger = (one, other) => (other > one ? other : one);
const smaller = (one, other) => (other < one ? other : one);
