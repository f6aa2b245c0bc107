import { isHere } from "../../scripts/needs.ts";

declare module "vitest" {
  interface TaskMeta {
    /** The program that the machine lacks for the test; the closing lines of a run name it. */
    lacks?: string;
  }
}

type Left = { readonly skip?: true; readonly meta?: { readonly lacks: string } };

/** Options of tests that need a program which the machine may not have: they are left out then. */
export function needing(program: string | undefined): Left {
  return program === undefined ? {} : provided(isHere(program), program);
}

/** The same for anything else that the machine may lack, named as people call it. */
export function provided(isThere: boolean, what: string): Left {
  return isThere ? {} : { skip: true, meta: { lacks: what } };
}
