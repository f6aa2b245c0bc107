import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { freePorts, openFolder, writeConfig } from "../cli/kit.ts";
import { each } from "../support/each.ts";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startProgram, startTollgate } from "../support/gateway/processes.ts";
import { readPage } from "./markdown.ts";

const ROOT = join(import.meta.dirname, "../..");
const TOKEN = "the-token-of-the-admin-listener-0123";

async function askWith({ production }: { production: string }, keys: readonly { key: string }[]) {
  for (const { key } of keys) {
    const headers = { Authorization: `Bearer ${key}` };
    await (await fetch(`${production}/v1/pets`, { headers })).text();
  }
}

describe("the page of tasks", () => {
  it("has commands that do what it says, in the order of the page", async () => {
    const page = await readFile(join(ROOT, "docs/tasks.md"), "utf8");
    const blocks = [...page.matchAll(/^```(\w+)\n(.*?)^```$/gms)];
    await using folder = await openFolder();
    const [admin = 0] = await freePorts(1);
    await using backend = await startTestUpstream();
    const settings = { admin, token: TOKEN, more: "history: 400d\nforeignKeys: off\n" };
    const file = await writeConfig(folder, { ...settings, productionUpstream: backend.port });
    await using gateway = startTollgate(["start", "--config", file]);
    const { urls } = await gateway.line(({ msg }) => msg === "serving");
    const main = `"${process.execPath}" "${join(ROOT, "src/main.ts")}"`;
    const env = { ADMIN_URL: `http://127.0.0.1:${admin}`, TOLLGATE_ADMIN_TOKEN: TOKEN };
    const run = async (script: string) => {
      const text = `set -e -o pipefail\ntollgate() { ${main} "$@" --config "${file}"; }\n${script}`;
      const running = startProgram("bash", ["-c", text], { cwd: folder.path, env });
      const { code, stdout, stderr } = await running.exited;
      return { code, said: stdout + stderr };
    };
    const issue =
      "tollgate keys create --env production --plan free --account customer-42 --limit day=3 --count 2 --json";
    const [leaked, own] = JSON.parse((await run(issue)).said) as { id: string; key: string }[];
    assert.ok(leaked && own);
    await writeFile(join(folder.path, "leaked.txt"), leaked.key);
    await askWith(urls as { production: string }, [leaked, leaked, own, own]);
    const refused = await gateway.line(({ code }) => code === "rate_limited");
    const [minute = ""] = /^.{16}/.exec(new Date(Number(refused.time)).toISOString()) ?? [];
    const here = (text: string) =>
      text
        .replaceAll("k_4fPqX1mZ0aBc", leaked.id)
        .replace("2026-11-21 14:03", minute.replace("T", " "));
    await writeFile(join(folder.path, "gateway.log"), gateway.stdout());
    const outputs: string[] = [];
    let ran = 0;
    for (const [, language, text = ""] of each(blocks)) {
      if (language === "sh") {
        const { code, said } = await run(here(text));
        outputs.push(said);
        // Nothing was logged in the month that is asked for: the audit compares nothing, and says so.
        const isEmptyAudit = code === 1 && text.includes("tollgate audit");
        assert.ok(code === 0 || isEmptyAudit, `${text}\n${said}`);
        ran += 1;
      } else if (language === "js") {
        await writeFile(join(folder.path, "sign-up.mjs"), text);
        const { code, said } = await run(`"${process.execPath}" sign-up.mjs`);
        assert.deepEqual([code, /^issued k_\w+: /.test(said)], [0, true], said);
        ran += 1;
      }
    }
    assert.ok(ran >= 10, `${ran} blocks were run`);
    const why = outputs.filter((said) => said.startsWith("429 rate_limited "));
    assert.equal(why.length, 1, outputs.join(""));
    assert.ok(String(why).endsWith(`, request ${String(refused.id)}\n`), String(why));
    assert.ok(outputs.includes("2 units\n"), "the leaked key alone is counted");
    const listed = await run("tollgate accounts list --json");
    for (const account of ["ada", "scoped", "customer-42", "customer-43", "client-test"]) {
      assert.ok(listed.said.includes(`"account":"${account}"`), account);
    }
  });

  it("serves with certbot's file that has the chain, as clients do not look for missing parts", () => {
    const live = /tls:\s+cert: \S*\/([\w.]+)\s+key: \S*\/([\w.]+)/;
    const [, ...names] = live.exec(readPage("docs/tasks.md")) ?? [];
    assert.deepEqual(names, ["fullchain.pem", "privkey.pem"]);
  });
});
