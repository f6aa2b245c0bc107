/**
 * The part of vitest that most test files ask for, as Node's runner has it. A file that asks for more fails to load, and
 * is run by vitest.
 */
export {
  after as afterAll,
  afterEach,
  before as beforeAll,
  beforeEach,
  describe,
  it,
  test,
} from "node:test";
