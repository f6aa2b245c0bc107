import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/** nginx looks for its modules, and its Lua for libraries, where Debian puts them. */
export const LUA_MODULES = [
  "/usr/lib/nginx/modules/ndk_http_module.so",
  "/usr/lib/nginx/modules/ngx_http_lua_module.so",
];
export const LUA_PATH = "/usr/share/lua/5.1/?.lua";

/** Debian puts servers in sbin, which an ordinary user's PATH often leaves out. */
const FOLDERS = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin"];

/** The path of a program, or undefined where it is not installed. */
export function find(program: string): string | undefined {
  return FOLDERS.map((folder) => join(folder, program)).find((path) => existsSync(path));
}

/** The Debian packages that are needed and not there. */
export function missing(): string[] {
  const has: readonly (readonly [name: string, there: boolean])[] = [
    ["nginx", find("nginx") !== undefined],
    ["libnginx-mod-http-lua", LUA_MODULES.every((path) => existsSync(path))],
    ["lua-nginx-redis", existsSync(LUA_PATH.replace("?", "nginx/redis"))],
    ["wrk", find("wrk") !== undefined],
    ["redis-server", find("redis-server") !== undefined],
  ];
  return has.filter(([, there]) => !there).map(([name]) => name);
}
