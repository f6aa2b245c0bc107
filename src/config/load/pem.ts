import { createPrivateKey, X509Certificate } from "node:crypto";
import { resolve } from "node:path";
import type { Findings } from "../file/findings.ts";
import { type ConfigPath, formatPath } from "../file/mistake.ts";
import { readTextFile, type TextFileResult } from "../file/text-file.ts";
import type { Draft } from "./draft.ts";
import { listServices } from "./service-drafts.ts";

const BYTES_MAX = 1024 ** 2;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

export type CertificateAuthorities = { readonly path: string; readonly text: string };

/**
 * Reads the PEM files that the configuration names: every one must be there and be what it is for.
 * Gives the authorities of upstreams by service; a private key is looked at and let go, and
 * nothing of it is told.
 */
export async function readPemFiles(
  { environments }: Draft,
  findings: Findings,
  folder: string,
): Promise<ReadonlyMap<string, CertificateAuthorities>> {
  const authorities = new Map<string, CertificateAuthorities>();
  for (const [name, { tls }] of environments) {
    const start = ["environments", name, "tls"];
    if (tls === undefined) continue;
    const cert = await readPem([...start, "cert"], resolve(folder, tls.cert), findings);
    const key = await readPem([...start, "key"], resolve(folder, tls.key), findings);
    checkPair(cert, key, start, findings);
  }
  for (const { key, path: start, upstreamTls } of listServices(environments)) {
    if (upstreamTls?.ca === undefined) continue;
    const at = [...start, "upstreamTls", "ca"];
    const path = resolve(folder, upstreamTls.ca);
    const text = await readPem(at, path, findings);
    if (text !== undefined && holdsCertificates(text, at, findings)) {
      authorities.set(key, { path, text });
    }
  }
  return authorities;
}

async function readPem(
  path: ConfigPath,
  file: string,
  findings: Findings,
): Promise<string | undefined> {
  const read: TextFileResult = await readTextFile(file, BYTES_MAX);
  if (read.ok) return read.text;
  const shown = findings.tree.isSubstituted(path) ? "" : ` ${file}`;
  findings.mistake(path, `Cannot read the file${shown} of ${formatPath(path)}: ${read.why}`);
  return undefined;
}

function checkPair(
  cert: string | undefined,
  key: string | undefined,
  path: ConfigPath,
  findings: Findings,
): void {
  const isSound = cert !== undefined && holdsCertificates(cert, [...path, "cert"], findings);
  if (key === undefined) return;
  const privateKey = attempt(() => createPrivateKey(key));
  if (privateKey === undefined) {
    findings.mistake(
      [...path, "key"],
      `Cannot use the file of ${formatPath([...path, "key"])}: it holds no private key as PEM without a passphrase`,
    );
    return;
  }
  if (!isSound || new X509Certificate(cert).checkPrivateKey(privateKey)) return;
  findings.mistake(
    [...path, "key"],
    `Cannot use ${formatPath([...path, "key"])}: the key does not belong to the certificate in tls.cert; name a pair`,
  );
}

function holdsCertificates(text: string, path: ConfigPath, findings: Findings): boolean {
  const blocks = text.match(CERTIFICATE) ?? [];
  const bad = blocks.findIndex((one) => attempt(() => new X509Certificate(one)) === undefined);
  if (blocks.length > 0 && bad === -1) return true;
  const why =
    blocks.length === 0
      ? "it holds no certificate as PEM"
      : `its certificate ${bad + 1} is damaged`;
  findings.mistake(path, `Cannot use the file of ${formatPath(path)}: ${why}`);
  return false;
}

/** The system's own words about a key are kept from everyone: they may quote what they read. */
function attempt<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}
