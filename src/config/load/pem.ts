import { createPrivateKey, X509Certificate } from "node:crypto";
import { resolve } from "node:path";
import { createSecureContext } from "node:tls";
import type { PemFile, ServiceConfig } from "../config.ts";
import type { Draft } from "../draft/draft.ts";
import { listServices } from "../draft/service-drafts.ts";
import type { Findings } from "../file/findings.ts";
import { type ConfigPath, formatPath } from "../file/mistake.ts";
import { readTextFile, type TextFileResult } from "../file/text-file.ts";

const BYTES_MAX = 1024 ** 2;
/** One that is cut off is found too: the libraries that read a chain refuse or ignore it. */
const CERTIFICATE = /-----BEGIN CERTIFICATE-----(?:[^-]*-----END CERTIFICATE-----)?/g;

/** The PEM files of a service for reaching its upstreams over TLS. */
export type UpstreamPems = Pick<ServiceConfig["upstreamTls"], "ca" | "clientCertificate">;

/**
 * Reads the PEM files that the configuration names. Every one must exist and fit its purpose.
 * Returns those of upstreams by service. The private key of a listener is checked and not kept. No
 * content of a private key is ever shown.
 */
export async function readPemFiles(
  { environments }: Draft,
  findings: Findings,
  folder: string,
): Promise<ReadonlyMap<string, UpstreamPems>> {
  const pems = new Map<string, UpstreamPems>();
  for (const [name, { tls }] of environments) {
    const start = ["environments", name, "tls"];
    if (tls === undefined) continue;
    await readPair(tls, start, findings, folder);
  }
  for (const { key, path, upstreamTls } of listServices(environments)) {
    if (upstreamTls === undefined) continue;
    const at = [...path, "upstreamTls"];
    const ca = await readAuthorities(upstreamTls.ca, [...at, "ca"], findings, folder);
    const clientCertificate = await readPair(upstreamTls, at, findings, folder);
    pems.set(key, { ca, clientCertificate });
  }
  return pems;
}

/** Absolute paths of all PEM files that are named, of listeners too, whether they are there or not. */
export function namedPemFiles({ environments }: Draft, folder: string): readonly string[] {
  const listeners = [...environments.values()].map(({ tls }) => tls);
  const upstreams = listServices(environments).map(({ upstreamTls }) => upstreamTls);
  return [
    ...upstreams.map((tls) => tls?.ca),
    ...[...listeners, ...upstreams].flatMap((tls) => [tls?.cert, tls?.key]),
  ].flatMap((file) => (file === undefined ? [] : resolve(folder, file)));
}

async function readAuthorities(
  file: string | undefined,
  at: ConfigPath,
  findings: Findings,
  folder: string,
): Promise<PemFile | undefined> {
  if (file === undefined) return undefined;
  const path = resolve(folder, file);
  const text = await readPem(at, path, findings);
  if (text === undefined || !holdsCertificates(text, at, findings)) return undefined;
  return { path, text };
}

type PairFiles = { readonly cert?: string | undefined; readonly key?: string | undefined };

async function readPair(
  { cert, key }: PairFiles,
  path: ConfigPath,
  findings: Findings,
  folder: string,
): Promise<UpstreamPems["clientCertificate"]> {
  if (cert === undefined || key === undefined) {
    const [given, missing] = cert === undefined ? ["key", "cert"] : ["cert", "key"];
    if (cert !== key) {
      findings.mistake(
        [...path, given],
        `Cannot use ${formatPath([...path, given])} without ${missing}: a certificate is proved by its private key; add ${missing}`,
      );
    }
    return undefined;
  }
  const [certPath, keyPath] = [resolve(folder, cert), resolve(folder, key)];
  const certText = await readPem([...path, "cert"], certPath, findings);
  const keyText = await readPem([...path, "key"], keyPath, findings);
  checkPair(certText, keyText, path, findings);
  if (certText === undefined || keyText === undefined) return undefined;
  return { cert: { path: certPath, text: certText }, key: { path: keyPath, text: keyText } };
}

async function readPem(
  path: ConfigPath,
  file: string,
  findings: Findings,
): Promise<string | undefined> {
  const read: TextFileResult = await readTextFile(file, BYTES_MAX);
  if (read.ok) return read.text;
  if (read.isUnread) findings.unread = read.why;
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
  if (!isSound) return;
  if (!new X509Certificate(cert).checkPrivateKey(privateKey)) {
    findings.mistake(
      [...path, "key"],
      `Cannot use ${formatPath([...path, "key"])}: the key does not belong to the certificate in ${path.at(-1)}.cert; name a pair`,
    );
    return;
  }
  warnOfEnd(cert, [...path, "cert"], findings);
  const refusal = tlsRefusal(cert, key);
  if (refusal === undefined) return;
  findings.mistake(
    [...path, "cert"],
    `Cannot use the file of ${formatPath([...path, "cert"])}: TLS refuses it (${refusal})`,
  );
}

function warnOfEnd(cert: string, path: ConfigPath, findings: Findings): void {
  const { validToDate } = new X509Certificate(cert);
  if (validToDate.getTime() > Date.now()) return;
  const ended = validToDate.toISOString().slice(0, 10);
  findings.warning(
    path,
    `The certificate of ${formatPath(path)} ended on ${ended}, so that TLS connections fail; renew it`,
  );
}

/**
 * The code of the reason, such as a key that is too short. Found here, because a connection to an
 * upstream would only fail with its first request.
 */
function tlsRefusal(cert: string, key: string): string | undefined {
  try {
    createSecureContext({ cert, key });
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "no code";
  }
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

/** The system's own words about a key are never shown, because they may quote the key. */
function attempt<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}
