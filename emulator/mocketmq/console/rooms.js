// The views, in the order of the navigation.

import { showLevels } from "./levels.js";
import { showMessages } from "./messages.js";
import { showSend } from "./send.js";

export const ROOMS = [
  { name: "levels", title: "Levels", show: showLevels },
  { name: "messages", title: "Messages", show: showMessages },
  { name: "send", title: "Send", show: showSend },
];
