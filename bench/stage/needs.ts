import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/** A thing that a variant runs on, by the Debian package that brings it; `npm` is bench/package.json. */
export type Need =
  | "nginx"
  | "libnginx-mod-http-lua"
  | "lua-nginx-redis"
  | "haproxy"
  | "caddy"
  | "npm";

/** nginx looks for its modules, and its Lua for libraries, where Debian puts them. */
export const LUA_MODULES = [
  "/usr/lib/nginx/modules/ndk_http_module.so",
  "/usr/lib/nginx/modules/ngx_http_lua_module.so",
];
export const LUA_PATH = "/usr/share/lua/5.1/?.lua";

/** Debian puts servers in sbin, which an ordinary user's PATH often leaves out. */
const FOLDERS = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin"];

/** The path of a program, or its name where it is not installed. */
export function find(program: string): string {
  const paths = FOLDERS.map((folder) => join(folder, program));
  return paths.find((path) => existsSync(path)) ?? program;
}

/** The Debian packages among them that are not there. */
export function missing(needs: readonly Need[]): Need[] {
  return needs.filter((need) => {
    if (need === "npm") return false;
    if (need === "libnginx-mod-http-lua") return !LUA_MODULES.every((path) => existsSync(path));
    if (need === "lua-nginx-redis") return !existsSync(LUA_PATH.replace("?", "nginx/redis"));
    return find(need) === need;
  });
}
